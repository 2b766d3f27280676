"""State of one request to the inline proxy, and what is derived from it: headers, record, upstream request."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from operator import attrgetter
from typing import Protocol

from aiohttp import web

from sidecar.extraction.routes import Route
from sidecar.protocols import PROTOCOLS
from sidecar.proxy.request_body import EMPTY, RequestBody
from sidecar.proxy.spotlighting import NO_MARKS, Marks
from sidecar.response_scan.placeholders import Placeholders
from sidecar.scan.service import ScanContext, ScanOutcome
from sidecar.server.body import RESERVATION
from sidecar.server.caller import scan_context
from sidecar.server.headers import OWN_PREFIX, upstream_headers
from sidecar.server.responses import ENFORCE, MARKED, REPLACED, STRIPPED, UNMARKED, verdict_headers
from sidecar.types import Segment
from sidecar.upstream import UpstreamRequest, UpstreamResponse

ALLOWED = ScanOutcome()
_DEFAULT_PORT = re.compile(r":(?:443|80)$")
_text_of = attrgetter("text")
_SIGNED_HEADERS = re.compile(r"SignedHeaders=([^, ]*)")


class Carrier(Protocol):
    """Carries an allowed request to the model and the response to the client, for a gateway with both connections.

    Stands for the sidecar's upstream and for its connection to the client.
    """

    @property
    def shows_responses(self) -> bool:
        """Whether the gateway sends the bodies of responses, and sends on what it gets back."""
        ...

    def send(
        self, request: UpstreamRequest, verdict_headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[UpstreamResponse]:
        """As `Upstream.send`. `verdict_headers`: for the response, if its headers must go before it was scanned."""
        ...

    async def relay(
        self,
        request: web.Request,
        upstream: UpstreamResponse,
        extra_headers: Mapping[str, str],
        *,
        dialect: str,
        write_timeout: float,
        keepalive: float | None = None,
    ) -> web.StreamResponse:
        """As `proxy.relay.relay`."""
        ...


@dataclass(slots=True)
class Exchange:
    """One request. `placeholders` replace personal data in the request sent upstream; `stripped_turns` counts turns."""

    request: web.Request
    id: str
    route: Route | None = None
    body: RequestBody = EMPTY
    query: RequestBody = EMPTY
    """The texts in the query of the target, which no rewriting of the body changes."""
    segments: tuple[Segment, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    """The tools whose results the segments are, by path, if the request has a threat."""
    outcome: ScanOutcome = ALLOWED
    stripped_turns: int = 0
    placeholders: Placeholders | None = None
    marks: Marks = NO_MARKS
    is_recorded: bool = False
    _context: ScanContext | None = None
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = ()
    profile_header: str = OWN_PREFIX
    """A header that is not forwarded (`gateway.header`)."""
    is_forwarded: bool = False
    """Whether sending to the upstream has begun."""
    carrier: Carrier | None = None
    """What carries the request, if not the sidecar."""
    has_response: bool = False
    """Whether the upstream's response has begun: from then on the relay reports errors."""

    @property
    def model(self) -> str | None:
        """The model: a deployment in the path overrides the body, as it does upstream."""
        return (self.route.deployment if self.route else None) or self.body.texts.model

    @property
    def replaced(self) -> int:
        """How many values placeholders stand for."""
        return len(self.placeholders) if self.placeholders else 0

    @property
    def dialect(self) -> str:
        """The API whose error format the client expects."""
        return self.route.dialect if self.route else "openai"

    @property
    def is_signed(self) -> bool:
        """Whether the client signs the body, so that it must go on as it is."""
        return PROTOCOLS[self.dialect].signed

    @property
    def takes_events(self) -> bool:
        """Whether a stream to this client is one of events; Google's is a JSON list without `alt=sse`."""
        return self.dialect != "gemini" or self.request.query.get("alt") == "sse"

    @property
    def context(self) -> ScanContext:
        """Client and route. Only valid after the request was admitted."""
        if self._context is None:
            path = self.request.raw_path.partition("?")[0]
            self._context = scan_context(self.request, self.id, "inline", path, self.trusted_proxies)
        return self._context

    @property
    def headers(self) -> dict[str, str]:
        """The verdict headers of every response."""
        outcome = self.outcome
        headers = verdict_headers(self.id, outcome.action, outcome.verdict, outcome.unscanned)
        headers |= {STRIPPED: str(self.stripped_turns)} if self.stripped_turns else {}
        headers |= {ENFORCE: outcome.enforce} if outcome.enforce else {}
        headers |= {MARKED: str(self.marks.marked)} if self.marks.marked else {}
        headers |= {UNMARKED: str(self.marks.unmarked)} if self.marks.unmarked else {}
        return headers | {REPLACED: str(self.replaced)} if self.replaced else headers

    def release_document(self) -> None:
        """Drop the parsed document while waiting for the upstream; keep the bytes to send, and the texts."""
        body = self.body
        body.document = None
        if isinstance(body.content, bytes):
            texts = map(_text_of, (*body.texts.segments, *body.texts.joined))
            self.request[RESERVATION].shrink(2 * len(body.content) + sum(map(sys.getsizeof, texts)))

    def upstream_request(self, route: Route, *, uncompressed: bool) -> UpstreamRequest:
        """The request to forward; `uncompressed` asks for a response that can be scanned.

        A streamed body keeps the Content-Length of the client, if there is one.
        """
        body = self.body
        served = PROTOCOLS[route.dialect]
        headers = upstream_headers(self.request.headers, decoded=body.decoded, reserved=self.profile_header)
        if not isinstance(body.content, bytes) and self.request.content_length is not None:
            headers["Content-Length"] = str(self.request.content_length)
        if uncompressed and not (served.signed and _signs(self.request.headers, "accept-encoding")):
            headers["Accept-Encoding"] = "identity"
        method, content = self.request.method, body.content or None
        credential = served.credential_header(route.prefix)
        signed_host = _signed_host(self.request.headers) if served.signed else None
        return UpstreamRequest(method, route.path, headers, content, credential, self.model, signed_host)


def _signed_host(headers: Mapping[str, str]) -> str | None:
    """The host that the client's signature is for: it is replaced by the upstream's."""
    return _DEFAULT_PORT.sub("", headers.get("Host", "").lower()) if _signs(headers, "host") else None


def _signs(headers: Mapping[str, str], name: str) -> bool:
    """Whether the client's signature (SigV4) covers this header field."""
    signed = _SIGNED_HEADERS.search(headers.get("Authorization", ""))
    return signed is not None and name in signed[1].lower().split(";")
