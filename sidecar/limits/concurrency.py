"""How many may run at once, and how many may wait for it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from weakref import WeakSet

from sidecar.errors import SidecarError
from sidecar.observability.metrics import IN_FLIGHT

_GATES: WeakSet[Concurrency] = WeakSet()
IN_FLIGHT.set_function(lambda: sum(gate.inside for gate in tuple(_GATES)))


class QueueFull(SidecarError):
    """As many run as may, and as many wait as may: told at once, without waiting."""


class Concurrency:
    """`async with gate:` for at most `limit` at a time; at most `queue` wait, in order; others get `QueueFull`."""

    def __init__(self, limit: int, queue: int) -> None:
        self._free = asyncio.Semaphore(limit)
        self._queue = queue
        self._waiting = self._running = 0
        _GATES.add(self)

    @property
    def inside(self) -> int:
        """How many run or wait."""
        return self._waiting + self._running

    async def __aenter__(self) -> None:
        """Come in, or wait, or raise `QueueFull`."""
        if self._free.locked() and self._waiting >= self._queue:
            raise QueueFull(f"{self._waiting} are waiting already")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        self._running += 1

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Make room for the next."""
        self._running -= 1
        self._free.release()
