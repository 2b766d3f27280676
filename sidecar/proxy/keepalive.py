"""Keepalives on event streams whose upstream is silent, so that no proxy or client closes them as idle.

Load balancers and clients close connections that are idle for a minute, and a reasoning model may be silent for ten.
Each protocol has an event that clients ignore.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol

from sidecar.protocols import PROTOCOLS

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Writer(Protocol):
    """Where keepalives go: a response, or what stands for it."""

    async def write(self, data: bytes, /) -> None:
        """Send bytes of the body."""
        ...


class Keepalive:
    """Writes a keepalive after `seconds` of silence, never within an event. Context manager around the relaying."""

    def __init__(self, response: Writer, dialect: str, seconds: float) -> None:
        self._response, self._seconds = response, seconds
        self._message = PROTOCOLS[dialect].keepalive
        self._loop = asyncio.get_running_loop()
        self._last_write = self._loop.time()
        self._between_events = True
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def begin_write(self) -> None:
        """Call before writing a chunk to the client, which may take long."""
        self._between_events = False

    def end_write(self, chunk: bytes) -> None:
        """Call after the chunk was written."""
        self._last_write, self._between_events = self._loop.time(), chunk.endswith(_EVENT_ENDS)

    def __enter__(self) -> Keepalive:
        """Start the timer."""
        self._timer = self._loop.call_at(self._last_write + self._seconds, self._check)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            self._writing.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        if now >= self._last_write + self._seconds:
            if self._between_events and (self._writing is None or self._writing.done()):
                self._writing = self._loop.create_task(self._write())
            self._last_write = now
        self._timer = self._loop.call_at(self._last_write + self._seconds, self._check)

    async def _write(self) -> None:
        if not self._between_events:
            return
        try:
            await self._response.write(self._message)
        except ConnectionError:
            return  # the next write of the stream raises it, too
