"""The compatibility APIs alone on loopback: real server, keys and decision log, and a scanner for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler
from inline_proxy import RecordedDecisionLog, WordScanner

from sidecar import policy
from sidecar.api.compat.envoy import ExtAuthz
from sidecar.api.compat.envoy_processing import STREAM, ExtProc
from sidecar.api.compat.routes import routes
from sidecar.auth.api_keys import KeyRing
from sidecar.config import Settings
from sidecar.limits import MemoryLimiter
from sidecar.response_scan.detector import personal_rules
from sidecar.server.in_process import in_process_handler
from sidecar.server.middleware import Gatekeeper, error_boundary
from sidecar.server.server import Site
from sidecar.storage import Store


@dataclass
class CompatServer:
    """A listening data port with only the compatibility APIs."""

    scanner: WordScanner
    decision_log: RecordedDecisionLog
    key: str
    url: str
    session: aiohttp.ClientSession
    handler: Handler
    """Answers requests without a connection."""

    async def ask(self, path: str, body: object, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Send one request with the key; returns status, JSON and headers."""
        fields = {"Authorization": f"Bearer {self.key}"} | {n.replace("_", "-"): v for n, v in headers.items()}
        async with self.session.post(self.url + path, json=body, headers=fields) as response:
            return response.status, await response.json() if await response.read() else None, dict(response.headers)


@asynccontextmanager
async def run_compat_server(folder: Path, *switches: str, **sections: Any) -> AsyncIterator[CompatServer]:
    """A server with these compatibility APIs enabled."""
    settings = Settings.model_validate({"compat": dict.fromkeys(switches, True), **sections})
    store = await Store.open(f"sqlite:///{folder}/compat.db")
    ring = KeyRing(store, settings.auth)
    _, key = await ring.create("k", environment="development")
    scanner, decision_log = WordScanner(), RecordedDecisionLog()
    gatekeeper = Gatekeeper(ring, MemoryLimiter(), settings)
    app = web.Application(middlewares=[error_boundary()])
    personal = personal_rules(policy.load(())) if settings.scans_for_pii else None
    app.add_routes(routes(scanner, decision_log, gatekeeper, settings, personal))
    checks = ExtAuthz(scanner, decision_log, gatekeeper, settings)
    streams = ExtProc(scanner, decision_log, gatekeeper, settings, personal)

    async def envoy(request: web.Request) -> web.StreamResponse:
        return await (streams if STREAM in request else checks).handle(request)

    if settings.compat.envoy:
        app.router.add_route("*", "/{tail:.*}", envoy)
    site = Site(app, settings.limits, drain=1)
    port = await site.listen("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            yield CompatServer(
                scanner, decision_log, key, f"http://127.0.0.1:{port}", session, in_process_handler(app, envoy)
            )
    finally:
        await site.close()
        await store.close()
