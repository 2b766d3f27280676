"""One configuration in force: the doors under it and what they stand on, closed when the last request has left.

A reload opens a new generation beside the running one. Requests that have begun stay where they began, so that
nobody is judged by half of one configuration and half of another, and a long stream does not hold up a reload.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiohttp import web

from sidecar import limits, upstream
from sidecar.api import openapi
from sidecar.api.compat import routes as compat
from sidecar.api.compat.envoy import ExtAuthz
from sidecar.api.scan import ScanApi
from sidecar.auth.api_keys import KeyRing
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.extraction.token_ids import NONE, Vocabularies
from sidecar.proxy.handler import Proxy
from sidecar.response_scan.detector import personal_rules
from sidecar.runtime.builder import Pipeline, Serving, pipeline
from sidecar.server.health import data_routes
from sidecar.server.middleware import Gatekeeper, is_own, not_here


@dataclass(frozen=True, slots=True)
class Ground:
    """What outlives every generation."""

    keyring: KeyRing
    limiter: limits.Limiter
    decision_log: DecisionLog
    serving: Serving


class Generation:
    """Serves the data port under one configuration. Made by `open`."""

    def __init__(
        self,
        settings: Settings,
        built: Pipeline,
        forward: upstream.Upstream,
        ground: Ground,
        vocabularies: Vocabularies = NONE,
    ) -> None:
        self.settings, self.engine, self.policy = settings, built.engine, built.policy
        self.degraded = built.degraded
        gatekeeper = Gatekeeper(ground.keyring, ground.limiter, settings)
        api = ScanApi(built.engine, ground.decision_log, gatekeeper, settings)
        personal = personal_rules(built.policy) if settings.scans_for_pii else None
        more = compat.routes(built.engine, ground.decision_log, gatekeeper, settings, personal)
        described = openapi.routes(lambda: compat.switched_on(settings))
        self._own = {(route.method, route.path): route.handler for route in (*api.routes(), *more, *described)}
        envoy = ExtAuthz(built.engine, ground.decision_log, gatekeeper, settings) if settings.compat.envoy else None
        self._envoy = envoy
        self._proxy = Proxy(built.engine, ground.decision_log, forward, settings, gatekeeper, personal, vocabularies)
        self._stack = AsyncExitStack()
        self._requests = 0
        self._left = asyncio.Event()

    @classmethod
    async def open(cls, settings: Settings, ground: Ground) -> Generation:
        """Build everything anew. Raises `SidecarError` with every problem; nothing is left open then."""
        async with AsyncExitStack() as stack:
            built = await stack.enter_async_context(pipeline(settings, serving=ground.serving))
            forward = await upstream.open(settings.upstream, settings.models)
            stack.push_async_callback(forward.close)
            vocabularies = await asyncio.to_thread(Vocabularies, settings.inline.vocabularies)
            made = cls(settings, built, forward, ground, vocabularies)
            made._stack = stack.pop_all()
            return made

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request of the data port."""
        self._requests += 1
        try:
            return await self._answer(request)
        finally:
            self._requests -= 1
            if not self._requests:
                self._left.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        own = self._own.get((request.method, request.rel_url.raw_path))
        if own is not None:
            return await own(request)
        if self._envoy is not None and self._envoy.takes(request):
            return await self._envoy.handle(request)
        if is_own(request.path) and not self._proxy.serves(request):
            raise not_here(request, [*(path for _, path in self._own), *(route.path for route in data_routes())])
        return await self._proxy.handle(request)

    async def retire(self) -> None:
        """Wait until the last request has left, then close. No request may come any more."""
        while self._requests:
            self._left.clear()
            await self._left.wait()
        await self._stack.aclose()
