"""How long one turn of the event loop may be: work that is done on the loop waits for its turn once that is spent.

A thread costs more than a short text does, but sixteen short texts that come at once are a long wait for whoever has a
chunk to pass on. Between two turns everybody else is served, and who came first is first.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

TIME_SLICE = 0.002
"""Seconds in one turn after which nothing more is begun."""


class LoopBudget:
    """Of one layer, on one event loop: `async with turn` holds the loop, as soon as a turn has time left.

    What stands within must not wait.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reset(None)

    def _reset(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Anew, for a loop: what another one still had to do will not come."""
        self._loop = loop
        self._spent = self._entered_at = 0.0
        self._renewal_scheduled = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Wait for a turn in which there is time left."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._reset(loop)
        if self._waiters or self._spent >= TIME_SLICE:
            await self._wait(loop)
        if not self._renewal_scheduled:
            self._renewal_scheduled = True
            loop.call_soon(self._renew)
        self._entered_at = time.perf_counter()

    async def __aexit__(self, *_: object) -> None:
        """Count what was taken, if it failed, too."""
        self._spent += time.perf_counter() - self._entered_at
        if self._spent < TIME_SLICE:
            self._wake_next()

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait behind all who wait."""
        waiter = loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was called, and does not come
                self._wake_next()
            raise

    def _renew(self) -> None:
        self._spent, self._renewal_scheduled = 0.0, False
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
