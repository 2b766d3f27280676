"""The access log: one line for each request answered on the data port, scanned or not.

Off unless `log.access`; the decision log has a line for every scan in any case. `id` is the decision id, as in the
response header `x-sidecar-decision` and the span attribute; `trace` is the caller's trace id (W3C `traceparent`). Of
the path only plain words are logged, and the query never.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sidecar.config import Settings
from sidecar.decision_log.rows import mask_route
from sidecar.server.client_address import address_of
from sidecar.server.middleware import UNTRACED
from sidecar.server.responses import DECISION_ID, KEY_ID
from sidecar.util import logs

CLIENT_GONE = 499
"""The status logged if the client disconnects before the response, as in nginx."""
_HEXADECIMAL = frozenset("0123456789abcdef")
_log = logs.get("access")


def access_log(settings: Settings) -> list[Middleware]:
    """The outermost middleware: the access log if enabled. Probes and scrapes are not logged."""
    if not settings.log.access:
        return []

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in UNTRACED:
            return await handler(request)
        started, status = time.monotonic(), CLIENT_GONE
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            with suppress(OSError):  # standard error is closed: no reason to refuse requests
                _log.info("request_answered", **_facts(request, settings, status, time.monotonic() - started))

    return [handle]


def _facts(request: web.Request, settings: Settings, status: int, seconds: float) -> dict[str, Any]:
    """The fields of the line that are known."""
    facts = {
        "id": request.get(DECISION_ID),
        "method": request.method,
        "route": mask_route(request.path),
        "status": status,
        "milliseconds": round(seconds * 1000),
        "client": address_of(request, settings.listen.trusted_proxies),
        "key_id": request.get(KEY_ID),
        "trace": _trace(request.headers.get("traceparent", "")),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _trace(parent: str) -> str | None:
    """The trace id of `VERSION-TRACE-SPAN-FLAGS`; None for any other value, which may be client text."""
    parts = parent.split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 and _HEXADECIMAL.issuperset(parts[1]) else None
