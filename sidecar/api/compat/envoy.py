"""Envoy's `ext_authz` filter in its HTTP form: the inline door with an upstream that only says yes.

From the documentation of Envoy 1.40 (`extensions/filters/http/ext_authz/v3`). Envoy sends the request itself: method,
path behind `path_prefix`, the headers that it is told to send, and the body (`with_request_body`). 200 lets it pass,
any other answer goes to the client. So routes, roles, keys and the failure policy are those of the inline door. What a
check cannot do is change the request or see the answer: `pii: redact` blocks here, `history: strip` and `responses`
are off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from multidict import CIMultiDict

from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.errors import BodyError
from sidecar.proxy.handler import Proxy
from sidecar.scan.engine import Engine
from sidecar.server.middleware import Gatekeeper
from sidecar.upstream import UpstreamRequest, UpstreamResponse
from sidecar.upstream.websockets import UnsupportedWebSocket

PREFIX = "/envoy"
PARTIAL = "x-envoy-auth-partial-body"


class Checked:
    """The upstream of a check: whatever got this far is allowed."""

    status = 200
    reason = "OK"
    headers: CIMultiDict[str] = CIMultiDict()

    @asynccontextmanager
    async def send(self, _request: UpstreamRequest) -> AsyncIterator[UpstreamResponse]:
        """See `Upstream`."""
        yield self

    def connect_websocket(
        self, _request: UpstreamRequest, _protocols: Sequence[str], _max_size: int
    ) -> UnsupportedWebSocket:
        """See `Upstream`: what passes on a socket is no request that could be checked."""
        return UnsupportedWebSocket()

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `UpstreamResponse`: nothing."""
        nothing: tuple[bytes, ...] = ()
        for part in nothing:
            yield part

    async def close(self) -> None:
        """Nothing to let go of."""


class ExtAuthz:
    """Answers checks under these settings."""

    def __init__(self, engine: Engine, decision_log: DecisionLog, gatekeeper: Gatekeeper, settings: Settings) -> None:
        self._proxy = Proxy(engine, decision_log, Checked(), for_envoy(settings), gatekeeper)

    def takes(self, request: web.Request) -> bool:
        """Whether this is a check."""
        return request.rel_url.raw_path.startswith(f"{PREFIX}/")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """200, or what the client is told."""
        refuse_partial(request)
        return await self._proxy.handle(request)


def for_envoy(settings: Settings) -> Settings:
    """The same settings for paths behind the prefix, and without what a check cannot do."""
    inline, block = settings.inline, settings.block
    places = {name: tuple(PREFIX + path for path in getattr(inline, name)) for name in ("prefixes", "routes")}
    cannot = {"history": "enforce", "pii": "block" if settings.pii == "redact" else settings.pii, "responses": "off"}
    update = {
        "inline": inline.model_copy(update={**places, "websockets": False}),
        "block": block.model_copy(update={"style": "error"}),
    }
    return settings.model_copy(update=update | cannot)


def refuse_partial(request: web.Request) -> None:
    """A body that Envoy cut off is not what goes up. Raises `BodyError`.

    A second line of defence: the first is `allow_partial_message: false`, since Envoy 1.40 says `false` of a body that
    it cut exactly at its limit.
    """
    if request.headers.get(PARTIAL, "false").lower() != "false":
        said = "Envoy sent a part of the body alone: set allow_partial_message to false."
        raise BodyError("oversize", said, status=413)
