"""One sidecar in front of several providers: requests are routed by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import aiohttp

from sidecar.types import Dependency
from sidecar.upstream.message import Upstream, UpstreamRequest, UpstreamResponse
from sidecar.util import by_model


class ModelRouter:
    """Routes by name or pattern of the model; requests without a match go to `default`."""

    def __init__(self, default: Upstream, routes: Mapping[str, Upstream]) -> None:
        self._default, self._routes = default, routes

    @property
    def problem(self) -> str | None:
        """See `Dependency`: those of all upstreams."""
        return "; ".join(part.problem for part in self._dependencies() if part.problem) or None

    async def probe(self) -> None:
        """See `Dependency`."""
        for part in self._dependencies():
            await part.probe()

    def _dependencies(self) -> list[Dependency]:
        return [part for part in (self._default, *self._routes.values()) if isinstance(part, Dependency)]

    def send(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """See `Upstream`."""
        return (by_model.find(self._routes, request.model) or self._default).send(request)

    def connect_websocket(
        self, request: UpstreamRequest, protocols: Sequence[str], max_message_size: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """See `Upstream`."""
        return (by_model.find(self._routes, request.model) or self._default).connect_websocket(
            request, protocols, max_message_size
        )

    async def close(self) -> None:
        """See `Upstream`."""
        for upstream in (self._default, *self._routes.values()):
            await upstream.close()
