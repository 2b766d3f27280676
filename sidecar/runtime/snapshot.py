"""One configuration in force: its routes and their dependencies, closed after its last request.

A reload opens a new snapshot beside the running one. A request finishes in the snapshot in which it began, so it is
judged by one configuration only, and a long stream does not delay a reload.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from aiohttp import web

from sidecar import limits, upstream
from sidecar.attachments.reader import AttachmentReader
from sidecar.auth.api_keys import KeyRing
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.observability.dependencies import dependencies
from sidecar.runtime import endpoints
from sidecar.runtime.builder import Scanner, ServerContext, open_scanner
from sidecar.runtime.endpoints import Endpoints
from sidecar.runtime.profiles import open_profiles
from sidecar.server.middleware import Gatekeeper
from sidecar.server.profiles import ProfileSelector
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
        profiles: Mapping[str, Scanner] | None = None,
    ) -> None:
        """`profiles`: their scanners by name."""
        self.settings, self.engine, self.policy = settings, scanner.engine, scanner.policy
        self.scanners = dict(profiles or {})
        self.degraded = (
            *scanner.degraded,
            *(problem for profile_scanner in self.scanners.values() for problem in profile_scanner.degraded),
        )
        self.dependencies = (*scanner.dependencies, *dependencies(("upstream", upstream_client)))
        common = endpoints.Shared(
            upstream_client,
            shared.decision_log,
            shared.server.pins,
            vocabularies,
            AttachmentReader(settings.inline),
        )
        gatekeeper = _gatekeeper(settings, shared)
        self._endpoints: dict[str | None, Endpoints] = {None: Endpoints(settings, scanner, gatekeeper, common)}
        for name, profile_scanner in self.scanners.items():
            terms, admits = settings.of_profile(name), _gatekeeper(settings, shared, name)
            self._endpoints[name] = Endpoints(terms, profile_scanner, admits, common)
        is_selecting = bool(settings.profiles or settings.gateway.addresses)
        self._selector = ProfileSelector(settings, gatekeeper) if is_selecting else None
        self._stack = AsyncExitStack()
        self._requests = 0
        self._idle = asyncio.Event()

    @classmethod
    async def open(cls, settings: Settings, shared: SharedResources) -> Snapshot:
        """Build a snapshot. Raises `SidecarError` with every problem; nothing is left open then."""
        async with AsyncExitStack() as stack:
            scanner = await stack.enter_async_context(open_scanner(settings, server=shared.server))
            profiles = await stack.enter_async_context(open_profiles(settings, scanner, shared.server))
            upstream_client = await upstream.open(settings.upstream, settings.models)
            stack.push_async_callback(upstream_client.close)
            vocabularies = await asyncio.to_thread(Vocabularies, settings.inline.vocabularies)
            snapshot = cls(settings, scanner, upstream_client, shared, vocabularies, profiles)
            for served in snapshot._endpoints.values():
                stack.push_async_callback(served.mcp.close)
            snapshot._stack = stack.pop_all()
            return snapshot

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request of the data port."""
        self._requests += 1
        try:
            name = None if self._selector is None else await self._selector.select(request)
            return await self._endpoints[name].answer(request)
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()

    async def retire(self) -> None:
        """Wait for the last request, then close. No request may be passed to `serve` any more."""
        while self._requests:
            self._idle.clear()
            await self._idle.wait()
        await self._stack.aclose()


def _gatekeeper(settings: Settings, shared: SharedResources, name: str | None = None) -> Gatekeeper:
    profile = None if name is None else (name, settings.profiles[name])
    return Gatekeeper(shared.keyring, shared.limiter, settings, shared.refused_keys, profile)
