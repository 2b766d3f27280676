"""How much memory the bodies of all requests in flight may take together, and how it is shared.

A body may hold at most as much as is then left. So nothing is set aside for anybody, and yet large bodies never
starve small ones: with n that take all they can get, each has a share of 1/(n+1), and as much is left.

Where the system itself has no memory, bodies that are not small are refused until it has the reserve again.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from weakref import WeakSet

from sidecar.errors import SidecarError
from sidecar.limits.memory_reserve import Reserve
from sidecar.observability.metrics import BODY_BYTES, NO_ROOM

MOST_WAITING = 64
"""What waits has sent more than was read of it: that memory is bounded by this."""
PATIENCE = 2.0
"""Seconds until a body that found no room is given up."""
SMALL = 16 * 1024
"""What a body may always take that is let in at all: most chats do with less."""


_ROOMS: WeakSet[Room] = WeakSet()


class NoRoom(SidecarError):
    """There is not enough left for this body, and there was not in time."""


class Room:
    """`total` bytes for all; it may be changed at any time, and holds for what comes then."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self._waiting = 0
        self._reserve = Reserve()
        self._freed = asyncio.Event()
        _ROOMS.add(self)

    @property
    def largest(self) -> int:
        """What one body may hold while there is no other."""
        return self.total // 2

    def lease(self) -> Lease:
        """For one body; use as a context manager, at whose end everything is given back."""
        return Lease(self)

    def fits(self, more: int, size: int) -> bool:
        """Whether a body of now `size` bytes, `more` than it was, holds no more than is then left."""
        return size <= self.total - self.held - more and (size <= SMALL or self._reserve.keep())

    def starve(self) -> None:
        """The system had no memory for something: all that is small has the reserve."""
        self._reserve.let_go()

    def tell(self) -> None:
        """There is more room than there was."""
        if self._waiting:
            self._freed.set()

    async def wait(self, more: int, size: int) -> None:
        """Until it fits. Raises `NoRoom` if it cannot, or not in time, or if many wait already or memory is short."""
        if size > self.largest or self._waiting >= MOST_WAITING or not self._reserve.kept:
            raise self._refused()
        self._waiting += 1
        try:
            async with asyncio.timeout(PATIENCE):
                while not self.fits(more, size):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            raise self._refused() from None
        finally:
            self._waiting -= 1

    def _refused(self) -> NoRoom:
        NO_ROOM.labels("body").inc()
        return NoRoom(f"{self.held} of {self.total} bytes are in use")


BODY_BYTES.set_function(lambda: sum(room.held for room in tuple(_ROOMS)))


class Lease:
    """What one body holds of the room. `waits`: it wanted more and has not got it."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.size = 0
        self.waits = False

    @property
    def largest(self) -> int:
        """What it may ever hold."""
        return self._room.largest

    async def hold(self, size: int) -> None:
        """Hold `size` bytes from now on, more or fewer than before. Raises `NoRoom`; then it holds what it did."""
        more = size - self.size
        if more > 0 and not self._room.fits(more, size):
            self.waits = True
            await self._room.wait(more, size)
            self.waits = False
        self._move(size)

    def shrink(self, size: int) -> None:
        """Hold no more than `size` bytes from now on."""
        if size < self.size:
            self._move(size)

    def _move(self, size: int) -> None:
        """Both counts change, or neither does: what is told of it afterwards may fail for want of memory."""
        more = size - self.size
        self._room.held, self.size = self._room.held + more, size
        if more < 0:
            self._room.tell()

    def __enter__(self) -> Lease:
        """Nothing is held yet."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give back what is held."""
        self.shrink(0)
