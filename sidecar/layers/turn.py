"""How long one turn of the event loop may be: work that is done on the loop waits for the next turn once it is spent.

A thread costs more than a short text does, but sixteen short texts that come at once are a long wait for whoever has a
chunk to pass on. Between two turns everybody else is served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MOST = 0.002
"""Seconds in one turn after which nothing more is begun."""


class Turn:
    """Shared by all who work on one event loop."""

    def __init__(self) -> None:
        self._spent = 0.0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Within it the loop is held; it begins when there is time left in a turn."""
        while self._spent >= MOST:  # noqa: ASYNC110 - nothing is waited for but the next turn
            await asyncio.sleep(0)
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._renew)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._spent += time.perf_counter() - begun

    def _renew(self) -> None:
        self._spent = 0.0
