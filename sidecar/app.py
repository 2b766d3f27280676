"""The composition root: configuration in, a running application out."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

from aiohttp import web

from sidecar import limits, logs, upstream
from sidecar.apikeys import KeyRing
from sidecar.config import Settings
from sidecar.engine import Engine
from sidecar.exemptions import Exemptions
from sidecar.journal import Journal
from sidecar.pipeline import Serving, pipeline
from sidecar.policy import Policy
from sidecar.store import Store
from sidecar.web.admin import Dashboard, Parts
from sidecar.web.api import ScanApi
from sidecar.web.findings import personal_rules
from sidecar.web.health import Readiness, admin_routes, data_routes
from sidecar.web.middleware import Gatekeeper, boundary, is_own, no_server_header, not_here
from sidecar.web.proxy import Proxy
from sidecar.web.server import Site

VERDICTS = "verdicts"
FOR_EVER = timedelta(days=36_500)
_log = logs.get("app")


class Sidecar:
    """A running sidecar: two listening sites over one pipeline. Use as an async context manager."""

    def __init__(self, settings: Settings, *, share_ports: bool = False) -> None:
        self.settings = settings
        self._share_ports = share_ports
        self.keyring: KeyRing
        self.store: Store
        self.policy: Policy
        self.data_port = 0
        self.admin_port = 0
        self._stack = AsyncExitStack()
        self._state = "starting"
        self._degraded: tuple[str, ...] = ()

    async def __aenter__(self) -> Sidecar:
        """Open everything and listen; on any error close what was opened."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, let requests in flight end within `drain.timeout`, close everything."""
        self._state = "draining"
        _log.info("drain_started", timeout=self.settings.drain.timeout)
        await self._stack.aclose()

    async def _start(self) -> None:
        settings, stack = self.settings, self._stack
        self.store = await Store.open(settings.store.url)
        stack.push_async_callback(self.store.close)
        secret = (await self.store.secrets.current(VERDICTS, datetime.now(UTC), FOR_EVER)).value
        exemptions = Exemptions(self.store)
        await exemptions.start()
        stack.push_async_callback(exemptions.close)
        serving = Serving(secret, exemptions, self.store.disagreements)
        built = await stack.enter_async_context(pipeline(settings, serving=serving))
        self.policy, self._degraded = built.policy, built.degraded
        self.keyring = KeyRing(self.store, settings.auth)
        await self.keyring.start()
        stack.push_async_callback(self.keyring.close)
        limiter = await limits.open(settings.limits.url)
        stack.push_async_callback(limiter.close)
        journal = Journal(self.store, settings.store, settings.log)
        await journal.start()
        stack.push_async_callback(journal.close)
        forward = await upstream.open(settings.upstream)
        stack.push_async_callback(forward.close)
        gatekeeper = Gatekeeper(self.keyring, limiter, settings)
        data = self._data_app(built.engine, journal, gatekeeper, forward)
        await self._listen(data, self._admin_app(journal, limiter, built.engine, exemptions))

    def _data_app(
        self, engine: Engine, journal: Journal, gatekeeper: Gatekeeper, forward: upstream.Upstream
    ) -> web.Application:
        app = web.Application(middlewares=[boundary()])
        app.on_response_prepare.append(no_server_header)
        own = [*ScanApi(engine, journal, gatekeeper, self.settings).routes(), *data_routes()]
        app.add_routes(own)
        personal = personal_rules(self.policy) if self.settings.looks_for_personal_data else None
        proxy = Proxy(engine, journal, forward, self.settings, gatekeeper, personal)

        async def rest(request: web.Request) -> web.StreamResponse:
            if is_own(request.path):
                raise not_here(request, (route.path for route in own))
            return await proxy.handle(request)

        app.router.add_route("*", "/{tail:.*}", rest)
        return app

    def _admin_app(
        self, journal: Journal, limiter: limits.Limiter, engine: Engine, exemptions: Exemptions
    ) -> web.Application:
        parts = Parts(self.settings, self.store, self.keyring, limiter, lambda: engine, lambda: self.policy, exemptions)
        dashboard = Dashboard(parts)
        app = web.Application(middlewares=[boundary(), dashboard.middleware()])
        app.on_response_prepare.append(no_server_header)
        app.add_routes(admin_routes(self._readiness(journal)))
        app.add_routes(dashboard.routes())
        return app

    def _readiness(self, journal: Journal) -> Readiness:
        return Readiness(lambda: self._problems(journal), lambda: self._degraded, lambda: self.policy.revision)

    def _problems(self, journal: Journal) -> list[str]:
        problems = [self._state] if self._state != "serving" else []
        return problems if journal.healthy else [*problems, "scan log cannot be written"]

    async def _listen(self, data: web.Application, admin: web.Application) -> None:
        settings, drain = self.settings, self.settings.drain.timeout
        # Closed in the reverse order: while the doors drain, /ready still says so.
        admin_site = Site(admin, settings.limits, drain)
        self._stack.push_async_callback(admin_site.close)
        self.admin_port = await admin_site.listen(settings.admin.host, settings.admin.port, share=self._share_ports)
        data_site = Site(data, settings.limits, drain)
        self._stack.push_async_callback(data_site.close)
        self.data_port = await data_site.listen(settings.listen.host, settings.listen.port, share=self._share_ports)
        self._state = "serving"
        _log.info("listen_started", host=settings.listen.host, port=self.data_port, admin_port=self.admin_port)


def stop_on_signal() -> asyncio.Event:
    """Set on SIGTERM or SIGINT; a second signal ends the process at once. Call it before anything is opened."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop
