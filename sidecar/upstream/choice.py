"""One sidecar before several providers: each request goes to the upstream of its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import aiohttp

from sidecar.upstream.message import Answer, Outgoing, Upstream
from sidecar.util import by_model


class ChosenUpstream:
    """`others` by name or pattern of the model; what names no model of them goes to `default`."""

    def __init__(self, default: Upstream, others: Mapping[str, Upstream]) -> None:
        self._default, self._others = default, others

    def send(self, request: Outgoing) -> AbstractAsyncContextManager[Answer]:
        """See `Upstream`."""
        return (by_model.find(self._others, request.model) or self._default).send(request)

    def dial(
        self, request: Outgoing, protocols: Sequence[str], most: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """See `Upstream`."""
        return (by_model.find(self._others, request.model) or self._default).dial(request, protocols, most)

    async def close(self) -> None:
        """See `Upstream`."""
        for upstream in (self._default, *self._others.values()):
            await upstream.close()
