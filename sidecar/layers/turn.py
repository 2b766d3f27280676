"""How long one turn of the event loop may be: work that is done on the loop waits for the next turn once it is spent.

A thread costs more than a short text does, but sixteen short texts that come at once are a long wait for whoever has a
chunk to pass on. Between two turns everybody else is served.
"""

from __future__ import annotations

import asyncio
import time

MOST = 0.002
"""Seconds in one turn after which nothing more is begun."""


class Turn:
    """Shared by all who work on one event loop: `async with turn` holds the loop, once there is time left in a turn.

    What stands within must not wait.
    """

    def __init__(self) -> None:
        self._spent = self._begun = 0.0

    async def __aenter__(self) -> None:
        """Wait for a turn in which there is time left."""
        while self._spent >= MOST:  # noqa: ASYNC110 - nothing is waited for but the next turn
            await asyncio.sleep(0)
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._renew)
        self._begun = time.perf_counter()

    async def __aexit__(self, *_: object) -> None:
        """Count what was taken, if it failed, too."""
        self._spent += time.perf_counter() - self._begun

    def _renew(self) -> None:
        self._spent = 0.0
