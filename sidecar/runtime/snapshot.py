"""One configuration in force: its routes and their dependencies, closed after its last request.

A reload opens a new snapshot beside the running one. A request finishes in the snapshot in which it began, so it is
judged by one configuration only, and a long stream does not delay a reload.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from aiohttp import web

from sidecar import limits, upstream
from sidecar.api import openapi
from sidecar.api.compat import routes as compat
from sidecar.api.compat.envoy import ExtAuthz
from sidecar.api.compat.envoy_processing import STREAM, ExtProc
from sidecar.api.scan import ScanApi
from sidecar.auth.api_keys import KeyRing
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.mcp.catalogue import Catalogue
from sidecar.mcp.http import McpProxy
from sidecar.observability.dependencies import dependencies
from sidecar.proxy.handler import Proxy
from sidecar.response_scan.detector import personal_rules
from sidecar.runtime.builder import Scanner, ServerContext, open_scanner
from sidecar.scan.service import ScanService
from sidecar.server.health import data_routes
from sidecar.server.middleware import Gatekeeper, is_sidecar_path, no_route_error
from sidecar.server.refused_keys import RefusedKeys


@dataclass(frozen=True, slots=True)
class SharedResources:
    """Resources that outlive every snapshot."""

    keyring: KeyRing
    limiter: limits.Limiter
    decision_log: DecisionLog
    server: ServerContext
    refused_keys: RefusedKeys = field(default_factory=RefusedKeys)


class Snapshot:
    """Serves the data port under one configuration. Create it with `open`."""

    def __init__(
        self,
        settings: Settings,
        scanner: Scanner,
        upstream_client: upstream.Upstream,
        shared: SharedResources,
        vocabularies: Vocabularies = NO_VOCABULARIES,
    ) -> None:
        self.settings, self.engine, self.policy = settings, scanner.engine, scanner.policy
        self.degraded = scanner.degraded
        self.dependencies = (*scanner.dependencies, *dependencies(("upstream", upstream_client)))
        gatekeeper = Gatekeeper(shared.keyring, shared.limiter, settings, shared.refused_keys)
        api = ScanApi(scanner.engine, shared.decision_log, gatekeeper, settings)
        personal = personal_rules(scanner.policy) if settings.scans_for_pii else None
        compat_routes = compat.routes(scanner.engine, shared.decision_log, gatekeeper, settings, personal)
        described = openapi.routes(lambda: compat.switched_on(settings))
        self._routes = {
            (route.method, route.path): route.handler for route in (*api.routes(), *compat_routes, *described)
        }
        self._envoy = (
            ExtAuthz(scanner.engine, shared.decision_log, gatekeeper, settings) if settings.compat.envoy else None
        )
        self._processing = ExtProc(scanner.engine, shared.decision_log, gatekeeper, settings, personal, vocabularies)
        self._proxy = Proxy(
            scanner.engine, shared.decision_log, upstream_client, settings, gatekeeper, personal, vocabularies
        )
        scans = ScanService(scanner.engine, settings, shared.decision_log)
        pins = shared.server.pins
        self.mcp = McpProxy(settings, scans, gatekeeper, Catalogue(pins) if pins is not None else None)
        self._stack = AsyncExitStack()
        self._requests = 0
        self._idle = asyncio.Event()

    @classmethod
    async def open(cls, settings: Settings, shared: SharedResources) -> Snapshot:
        """Build a snapshot. Raises `SidecarError` with every problem; nothing is left open then."""
        async with AsyncExitStack() as stack:
            scanner = await stack.enter_async_context(open_scanner(settings, server=shared.server))
            upstream_client = await upstream.open(settings.upstream, settings.models)
            stack.push_async_callback(upstream_client.close)
            vocabularies = await asyncio.to_thread(Vocabularies, settings.inline.vocabularies)
            snapshot = cls(settings, scanner, upstream_client, shared, vocabularies)
            stack.push_async_callback(snapshot.mcp.close)
            snapshot._stack = stack.pop_all()
            return snapshot

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request of the data port."""
        self._requests += 1
        try:
            return await self._answer(request)
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if STREAM in request:  # set by the gRPC port alone, which asks for compat.envoy
            return await self._processing.handle(request)
        handler = self._routes.get((request.method, request.rel_url.raw_path))
        if handler is not None:
            return await handler(request)
        if self._envoy is not None and self._envoy.handles(request):
            return await self._envoy.handle(request)
        if self.mcp.handles(request):
            return await self.mcp.handle(request)
        if is_sidecar_path(request.path) and not self._proxy.serves(request):
            raise no_route_error(
                request, [*(path for _, path in self._routes), *(route.path for route in data_routes())]
            )
        return await self._proxy.handle(request)

    async def retire(self) -> None:
        """Wait for the last request, then close. No request may be passed to `serve` any more."""
        while self._requests:
            self._idle.clear()
            await self._idle.wait()
        await self._stack.aclose()
