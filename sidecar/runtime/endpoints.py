"""The entry points of the data port under one set of settings: the general one, or that of a profile."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar import upstream
from sidecar.api import openapi
from sidecar.api.compat import routes as compat
from sidecar.api.compat.envoy import ExtAuthz
from sidecar.api.compat.envoy_processing import STREAM, ExtProc
from sidecar.api.scan import ScanApi
from sidecar.attachments.reader import NO_ATTACHMENTS, AttachmentReader
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.mcp.catalogue import Catalogue
from sidecar.mcp.http import McpProxy
from sidecar.proxy.handler import Proxy
from sidecar.response_scan.detector import personal_rules
from sidecar.runtime.builder import Scanner
from sidecar.scan.service import ScanService
from sidecar.server.health import data_routes
from sidecar.server.middleware import Gatekeeper, is_sidecar_path, no_route_error
from sidecar.storage import Pins


@dataclass(frozen=True, slots=True)
class Shared:
    """What the entry points of all profiles have in common."""

    upstream: upstream.Upstream
    decision_log: DecisionLog
    pins: Pins | None = None
    vocabularies: Vocabularies = NO_VOCABULARIES
    attachments: AttachmentReader = NO_ATTACHMENTS


class Endpoints:
    """Answers requests of the data port."""

    def __init__(self, settings: Settings, scanner: Scanner, gatekeeper: Gatekeeper, shared: Shared) -> None:
        engine, log = scanner.engine, shared.decision_log
        api = ScanApi(engine, log, gatekeeper, settings)
        personal = personal_rules(scanner.policy) if settings.scans_for_pii else None
        compat_routes = compat.routes(engine, log, gatekeeper, settings, personal)
        described = openapi.routes(lambda: compat.switched_on(settings))
        self._routes = {
            (route.method, route.path): route.handler for route in (*api.routes(), *compat_routes, *described)
        }
        self._envoy = ExtAuthz(engine, log, gatekeeper, settings) if settings.compat.envoy else None
        files = (shared.vocabularies, shared.attachments)
        self._processing = ExtProc(engine, log, gatekeeper, settings, personal, *files)
        self._proxy = Proxy(engine, log, shared.upstream, settings, gatekeeper, personal, *files)
        scans = ScanService(engine, settings, log)
        self.mcp = McpProxy(settings, scans, gatekeeper, Catalogue(shared.pins) if shared.pins is not None else None)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request. Raises `RequestError`."""
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
            served = [*(path for _, path in self._routes), *(route.path for route in data_routes())]
            raise no_route_error(request, served)
        return await self._proxy.handle(request)
