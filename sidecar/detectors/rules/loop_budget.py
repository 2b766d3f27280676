"""Event-loop time slice: work on the loop waits for the next iteration once the slice is used up.

A thread costs more than a short text does, but sixteen short texts arriving at once would delay every task with a chunk
to forward. Between two slices the loop serves all other tasks; waiters are served in order of arrival.

Invariant: at most `TIME_SLICE` plus one piece of work runs per loop iteration, and while the budget is exhausted or
anyone waits, a renewal or a wake-up is pending.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

TIME_SLICE = 0.002
"""Seconds per loop iteration after which no further work is started."""


class LoopBudget:
    """The budget of one layer on one event loop: `async with budget` enters once the slice has time left.

    The body must not await.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reset(None)

    def _reset(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Reset for a new event loop; waiters of the old loop are dropped."""
        self._loop = loop
        self._used_time = self._entered_at = 0.0
        self._renewal_scheduled = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Wait for a slice with time left."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._reset(loop)
        if self._waiters or self._used_time >= TIME_SLICE:
            await self._wait(loop)
        if not self._renewal_scheduled:
            self._renewal_scheduled = True
            loop.call_soon(self._renew)
        self._entered_at = time.perf_counter()

    async def __aexit__(self, *_: object) -> None:
        """Charge the time used, also on failure."""
        self._used_time += time.perf_counter() - self._entered_at
        if self._waiters and self._used_time < TIME_SLICE:
            self._wake_next()

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait in the queue."""
        waiter = loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was woken and then cancelled: wake the next
                self._wake_next()
            raise

    def _renew(self) -> None:
        self._used_time, self._renewal_scheduled = 0.0, False
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
