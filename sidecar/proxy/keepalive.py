"""Keepalives on an event stream whose upstream is silent, so that no proxy or client closes it as idle.

Load balancers and clients close a connection that is idle for a minute, and a reasoning model may be silent for ten.
Between two events a comment changes nothing for the reader of the stream (WHATWG HTML, 9.2.6); Anthropic's clients know
an event for it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from aiohttp import web

COMMENT = b": keepalive\n\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Keepalive:
    """Writes to a response after so many silent `seconds`, never within an event. Use around a stream that passes."""

    def __init__(self, response: web.StreamResponse, dialect: str, seconds: float) -> None:
        self._response, self._seconds = response, seconds
        self._sign = PING if dialect == "anthropic" else COMMENT
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._between = True
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def passes(self) -> None:
        """Something of the stream is about to go to the client, which may take its time."""
        self._between = False

    def passed(self, part: bytes) -> None:
        """It has gone."""
        self._last, self._between = self._loop.time(), part.endswith(_ENDS)

    def __enter__(self) -> Keepalive:
        """Begin to listen for silence."""
        self._timer = self._loop.call_at(self._last + self._seconds, self._look)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The stream is over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            self._writing.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if now >= self._last + self._seconds:
            if self._between and (self._writing is None or self._writing.done()):
                self._writing = self._loop.create_task(self._write())
            self._last = now
        self._timer = self._loop.call_at(self._last + self._seconds, self._look)

    async def _write(self) -> None:
        if not self._between:
            return
        try:
            await self._response.write(self._sign)
        except ConnectionError:
            return  # the next write of the stream raises it, too
