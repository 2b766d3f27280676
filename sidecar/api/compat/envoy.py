"""Envoy's `ext_authz` filter in its HTTP form: the inline proxy without an upstream.

From the documentation of Envoy 1.40 (`extensions/filters/http/ext_authz/v3`). Envoy sends the request itself: method,
path behind `path_prefix`, the configured headers, and the body (`with_request_body`). 200 allows it, any other response
goes to the client. Routes, roles, keys and the failure policy are therefore those of the inline proxy. A check cannot
change the request or see the response: `pii: redact` blocks here, `history: strip`, `untrusted` and
`responses` are off.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.errors import BodyError
from sidecar.proxy.handler import Proxy
from sidecar.scan.engine import Engine
from sidecar.server.middleware import Gatekeeper

PREFIX = "/envoy"
PARTIAL = "x-envoy-auth-partial-body"


class ExtAuthz:
    """Answers checks under these settings."""

    def __init__(self, engine: Engine, decision_log: DecisionLog, gatekeeper: Gatekeeper, settings: Settings) -> None:
        self._proxy = Proxy(engine, decision_log, None, envoy_settings(settings), gatekeeper)

    def handles(self, request: web.Request) -> bool:
        """Whether this is a check."""
        return request.rel_url.raw_path.startswith(f"{PREFIX}/")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """200, or the response for the client."""
        refuse_partial(request)
        return await self._proxy.handle(request)


def envoy_settings(settings: Settings) -> Settings:
    """These settings with prefixed paths, and without what a check cannot do."""
    unsupported = {
        "history": "enforce",
        "pii": "block" if settings.pii == "redact" else settings.pii,
        "untrusted": "forward",
        "responses": "off",
        "block": settings.block.model_copy(update={"style": "error"}),
    }
    return prefixed_settings(settings).model_copy(update=unsupported)


def prefixed_settings(settings: Settings) -> Settings:
    """These settings with prefixed paths, and without websockets, which Envoy does not show."""
    inline = settings.inline
    prefixed = {name: tuple(PREFIX + path for path in getattr(inline, name)) for name in ("prefixes", "routes")}
    return settings.model_copy(update={"inline": inline.model_copy(update={**prefixed, "websockets": False})})


def refuse_partial(request: web.Request) -> None:
    """Raise `BodyError` for a body that Envoy truncated: it is not what Envoy forwards.

    Second line of defence after `allow_partial_message: false`: Envoy 1.40 reports `false` for a body that it
    truncated exactly at its limit.
    """
    if request.headers.get(PARTIAL, "false").lower() != "false":
        message = "Envoy sent a part of the body alone: set allow_partial_message to false."
        raise BodyError("oversize", message, status=413)
