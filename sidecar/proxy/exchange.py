"""One request of the inline door, as far as it is known by now, and what is made of that: headers, record, forward."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from aiohttp import web

from sidecar.extraction.extraction import Extraction
from sidecar.extraction.routes import Route
from sidecar.proxy.request_body import EMPTY, Payload
from sidecar.response_scan.placeholders import Placeholders
from sidecar.scan.service import ScanContext, ScanOutcome
from sidecar.server.body import RESERVATION
from sidecar.server.caller import API_KEY
from sidecar.server.headers import upstream_headers
from sidecar.server.responses import ENFORCE, REPLACED, STRIPPED, verdict_headers
from sidecar.types import Segment
from sidecar.upstream import UpstreamRequest

ALLOWED = ScanOutcome()


@dataclass(slots=True)
class Call:
    """`names` are the placeholders for personal data in the request sent upstream; `stripped` counts turns left out."""

    request: web.Request
    id: str
    route: Route | None = None
    payload: Payload = EMPTY
    segments: tuple[Segment, ...] = ()
    outcome: ScanOutcome = ALLOWED
    stripped: int = 0
    names: Placeholders | None = None
    recorded: bool = False
    _context: ScanContext | None = None
    sent: bool = False
    """Whether the request has been sent to the upstream, or begun to be."""
    answered: bool = False
    """Whether the upstream has begun to answer: what is said from then on is said by the relay."""

    @property
    def texts(self) -> Extraction:
        """What the body says."""
        return self.payload.texts or Extraction()

    @property
    def model(self) -> str | None:
        """Whom it is for: what the path names is what is served, whatever the body says."""
        return (self.route.deployment if self.route else None) or self.texts.model

    @property
    def dialect(self) -> str:
        """Whose errors the client reads."""
        return self.route.dialect if self.route else "openai"

    @property
    def path(self) -> str:
        """The request target without its query."""
        return self.request.raw_path.partition("?")[0]

    @property
    def context(self) -> ScanContext:
        """Who asks, and where. Read it after the request was admitted."""
        if self._context is None:
            self._context = ScanContext(self.id, "inline", self.path, self.request.get(API_KEY))
        return self._context

    @property
    def headers(self) -> dict[str, str]:
        """The verdict headers, which every answer gets."""
        outcome = self.outcome
        headers = verdict_headers(self.id, outcome.action, outcome.verdict, outcome.unscanned)
        headers |= {STRIPPED: str(self.stripped)} if self.stripped else {}
        headers |= {ENFORCE: outcome.enforce} if outcome.enforce else {}
        return headers | {REPLACED: str(len(self.names))} if self.names else headers

    def lighten(self) -> None:
        """Keep what is needed until the upstream answers, which may take a minute: the bytes to send, and the texts."""
        kept = self.payload
        self.payload = Payload(kept.body, kept.texts, None, kept.decoded, kept.unscanned)
        if isinstance(self.payload.body, bytes):
            said = [segment.text for segment in (*self.texts.segments, *self.texts.joined)]
            texts = sum(map(sys.getsizeof, said))
            self.request[RESERVATION].shrink(2 * len(self.payload.body) + texts)

    def outgoing(self, route: Route, *, plain: bool) -> UpstreamRequest:
        """The request as it goes up; `plain` asks for an answer that can be looked at.

        A body that streams keeps the length that the client announced, if it did.
        """
        payload = self.payload
        headers = upstream_headers(self.request.headers, decoded=payload.decoded)
        if not isinstance(payload.body, bytes) and self.request.content_length is not None:
            headers["Content-Length"] = str(self.request.content_length)
        if plain:
            headers["Accept-Encoding"] = "identity"
        method, body = self.request.method, payload.body or None
        return UpstreamRequest(method, route.path, headers, body, _credential_header(route), self.model)


def _credential_header(route: Route) -> str:
    """Where the API of this route expects the upstream's key."""
    if route.dialect == "anthropic":
        return "X-API-Key"
    # Azure's routes but for `/openai/v1`, where it takes both, and others take this one alone.
    return "Api-Key" if route.prefix.startswith("/openai") and route.prefix != "/openai/v1" else "Authorization"
