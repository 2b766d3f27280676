"""A bulkhead: bounds how many tasks run at once and how many may wait for a slot, fairly among clients."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType


class BulkheadFull(Exception):
    """All slots are taken and the queue is full. Raised at once, without waiting, unless another client needs room."""


class Bulkhead:
    """`async with bulkhead.slot(client):` runs at most `limit` at a time; at most `queue` wait.

    Others get `BulkheadFull`. Clients take turns: a slot that becomes free goes to the next client, and to each
    client's tasks in order. If the queue is full, a client that waits less often than another displaces the latest task
    of the one that waits most. So no client can keep others out. Without a `queue` any number may wait.
    """

    def __init__(self, limit: int, queue: int | None) -> None:
        self._capacity = None if queue is None else limit + queue
        self._free = limit
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self.occupants = 0
        """Tasks that run or wait. Invariant: never more than `limit + queue`."""

    @asynccontextmanager
    async def slot(self, client: str = "") -> AsyncIterator[None]:
        """A slot for a task of this client, waiting if the queue has room. Raises `BulkheadFull`."""
        await self.acquire(client)
        try:
            yield
        finally:
            self.release()

    async def __aenter__(self) -> None:
        """A slot where there is one client alone."""
        await self.acquire("")

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Release the slot."""
        self.release()

    async def acquire(self, client: str) -> None:
        """Take a slot, waiting if the queue has room; `release` it. Raises `BulkheadFull`."""
        if self._free and not self._waiting:
            self._free -= 1
            self.occupants += 1
            return
        if self._is_full() and not self._displace(client):
            raise BulkheadFull(f"{self.occupants} tasks are running or waiting")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        self.occupants += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(client, turn)
            elif turn.exception() is None:  # its turn came in the same moment
                self.release()
            raise

    def release(self) -> None:
        """Give the slot to the client whose turn it is, or keep it free."""
        self.occupants -= 1
        while self._waiting:
            client, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            del self._waiting[client]
            if turns:
                self._waiting[client] = turns  # now the last one in the order
            if not turn.done():
                turn.set_result(None)
                return
            self.occupants -= 1  # cancelled: its task finds that it has left
        self._free += 1

    def _is_full(self) -> bool:
        """Whether the queue has no room, not even that of cancelled tasks that have yet to leave."""
        if self._capacity is None or self.occupants < self._capacity:
            return False
        cancelled = [(client, turn) for client, turns in self._waiting.items() for turn in turns if turn.done()]
        for client, turn in cancelled:
            self._leave(client, turn)
        return not cancelled

    def _displace(self, client: str) -> bool:
        """Make room by refusing the latest task of the client that waits most, if that is fair."""
        busiest, turns = max(self._waiting.items(), key=lambda item: len(item[1]), default=("", deque()))
        if len(turns) <= len(self._waiting.get(client, ())) + 1:
            return False
        turn = turns[-1]
        self._leave(busiest, turn)
        turn.set_exception(BulkheadFull("another client needs the room"))
        return True

    def _leave(self, client: str, turn: asyncio.Future[None]) -> None:
        """Take a waiting task out of the queue, unless it has left already."""
        turns = self._waiting.get(client)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del self._waiting[client]
        self.occupants -= 1
