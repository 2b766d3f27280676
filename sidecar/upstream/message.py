"""What goes up and what comes down: one request, one answer, and the protocol between door and upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from multidict import CIMultiDict, MultiMapping


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to forward. `target` is path and query, sent byte for byte.

    `credential` names the header in which this route expects the upstream's API key, `model` the model it is for.
    """

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes | AsyncIterator[bytes] | None = None
    credential: str = "Authorization"
    model: str | None = None


class Answer(Protocol):
    """The beginning of an upstream's answer; the body follows in `chunks`."""

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
        """All header fields as received, repeated ones too."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, still encoded. Raises `UpstreamError` if it breaks off or stalls."""
        ...


class Upstream(Protocol):
    """Whatever answers forwarded requests."""

    def send(self, request: Outgoing) -> AbstractAsyncContextManager[Answer]:
        """Enter to send and wait for the answer's headers; leave to let go of the call, finished or not.

        Raises `UpstreamError`: 502 when there is no (readable) answer, 504 when there is none in time.
        """
        ...

    def dial(
        self, request: Outgoing, protocols: Sequence[str], most: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Enter to open a websocket whose messages have `most` bytes; leave to close it. Raises `UpstreamError`."""
        ...

    async def close(self) -> None:
        """Let go of connections and child processes."""
        ...
