"""The access log: one line for each request that the data port answered, whether it was scanned or not.

Off unless `log.access`; what was scanned has its line by the journal in any case. `id` is the decision's, the answer's
header `x-sidecar-decision` and the span's attribute; `trace` is that of the caller (W3C `traceparent`). Of the address
plain words alone are kept, and never the query.
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
"""The status of a request whose client did not wait for the end, as nginx writes it."""
_HEXADECIMAL = frozenset("0123456789abcdef")
_log = logs.get("access")


def access_log(settings: Settings) -> list[Middleware]:
    """What stands before all other middleware: the log, or nothing. Probes and scrapes are left out."""
    if not settings.log.access:
        return []

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in UNTRACED:
            return await handler(request)
        began, status = time.monotonic(), CLIENT_GONE
        try:
            given = await handler(request)
            status = given.status
            return given
        finally:
            with suppress(OSError):  # nobody reads our standard error any more: no reason to refuse requests
                _log.info("request_answered", **_facts(request, settings, status, time.monotonic() - began))

    return [handle]


def _facts(request: web.Request, settings: Settings, status: int, seconds: float) -> dict[str, Any]:
    """What is known of it, without what is not."""
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
    """The id of the trace, from `VERSION-TRACE-SPAN-FLAGS`; None from anything else, which may be a client's text."""
    parts = parent.split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 and _HEXADECIMAL.issuperset(parts[1]) else None
