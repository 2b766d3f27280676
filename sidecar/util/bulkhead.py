"""A bulkhead: bounds how many tasks run at once and how many may wait for a slot."""

from __future__ import annotations

import asyncio
from types import TracebackType


class BulkheadFull(Exception):
    """All slots are taken and the queue is full. Raised at once, without waiting."""


class Bulkhead:
    """`async with bulkhead:` runs at most `limit` at a time; at most `queue` wait, in order; others get `BulkheadFull`.

    Without a `queue` any number may wait. Invariant: `occupants` is the number of tasks that run or wait, hence never
    more than `limit + queue`.
    """

    def __init__(self, limit: int, queue: int | None) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._capacity = None if queue is None else limit + queue
        self.occupants = 0

    async def __aenter__(self) -> None:
        """Acquire a slot, waiting if the queue has room. Raises `BulkheadFull`."""
        if self._capacity is not None and self.occupants >= self._capacity:
            raise BulkheadFull(f"{self.occupants} tasks are running or waiting")
        self.occupants += 1
        try:
            await self._slots.acquire()
        except BaseException:
            self.occupants -= 1
            raise

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Release the slot."""
        self.occupants -= 1
        self._slots.release()
