"""How long one turn of the event loop may be: work that is done on the loop waits for its turn once that is spent.

A thread costs more than a short text does, but sixteen short texts that come at once are a long wait for whoever has a
chunk to pass on. Between two turns everybody else is served, and who came first is first.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

MOST = 0.002
"""Seconds in one turn after which nothing more is begun."""


class Turn:
    """Of one layer, on one event loop: `async with turn` holds the loop, as soon as a turn has time left.

    What stands within must not wait.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin(None)

    def _begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Anew, for a loop: what another one still had to do will not come."""
        self._loop = loop
        self._spent = self._begun = 0.0
        self._will_renew = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Wait for a turn in which there is time left."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._begin(loop)
        if self._waiting or self._spent >= MOST:
            await self._place(loop)
        if not self._will_renew:
            self._will_renew = True
            loop.call_soon(self._renew)
        self._begun = time.perf_counter()

    async def __aexit__(self, *_: object) -> None:
        """Count what was taken, if it failed, too."""
        self._spent += time.perf_counter() - self._begun
        if self._spent < MOST:
            self._call_next()

    async def _place(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait behind all who wait."""
        place = loop.create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was called, and does not come
                self._call_next()
            raise

    def _renew(self) -> None:
        self._spent, self._will_renew = 0.0, False
        self._call_next()

    def _call_next(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
