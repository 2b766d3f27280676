"""The request to an upstream, its response, and the protocol of upstreams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from multidict import CIMultiDict, MultiMapping


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A request to forward. `target` is path and query, sent byte for byte.

    `credential` is the header in which this route expects the upstream's API key, `model` the requested model,
    `signed_host` the host that the client's signature is for, if it signed one.
    """

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes | AsyncIterator[bytes] | None = None
    credential: str = "Authorization"
    model: str | None = None
    signed_host: str | None = None


class UpstreamResponse(Protocol):
    """The head of an upstream's response; the body follows in `chunks`."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def reason(self) -> str:
        """The reason phrase of the status line."""
        ...

    @property
    def headers(self) -> MultiMapping[str]:
        """All header fields as received, repeated ones included."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, still encoded. Raises `UpstreamError` if it is truncated or stalls."""
        ...


class Upstream(Protocol):
    """A service that answers forwarded requests."""

    def send(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Enter to send and wait for the response headers; exit to release the connection, finished or not.

        Raises `UpstreamError`: 502 without a (readable) response, 504 without one in time.
        """
        ...

    def connect_websocket(
        self, request: UpstreamRequest, protocols: Sequence[str], max_message_size: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Enter to open a websocket with messages of at most `max_message_size` bytes. Raises `UpstreamError`."""
        ...

    async def close(self) -> None:
        """Close connections and child processes."""
        ...
