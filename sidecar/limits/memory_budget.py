"""Memory budget for the bodies of all requests in flight, and its fair sharing.

A body may reserve at most as much as is then still free. So nothing has to be set aside per request, and yet large
bodies never starve small ones: with n bodies that take all they can get, each has 1/(n+1), and as much stays free.

When the system itself is out of memory, bodies that are not small are rejected until the reserve is held again.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from weakref import WeakSet

from sidecar.errors import SidecarError
from sidecar.limits.memory_reserve import MemoryReserve
from sidecar.observability.metrics import BODY_BYTES, NO_ROOM

MAX_WAITING = 64
"""Bodies waiting for memory. Each has sent more than was read of it, so this bounds that memory, too."""
WAIT_TIMEOUT = 2.0
"""Seconds a body waits for memory before it is rejected."""
SMALL_BODY = 16 * 1024
"""Bytes that a body may take even without the reserve: most chats need less."""


_BUDGETS: WeakSet[MemoryBudget] = WeakSet()


class OverBudget(SidecarError):
    """The budget has too little left for this body, and not enough was freed in time."""


class MemoryBudget:
    """`total` bytes for all bodies. `total` may be changed at any time; it applies to later reservations.

    Invariant: `reserved` is the sum of `Reservation.size` over all reservations.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.reserved = 0
        self._waiting = 0
        self._reserve = MemoryReserve()
        self._freed = asyncio.Event()
        _BUDGETS.add(self)

    @property
    def max_size(self) -> int:
        """The most one body may reserve, when there is no other."""
        return self.total // 2

    def reserve(self) -> Reservation:
        """A reservation for one body; a context manager that frees it on exit."""
        return Reservation(self)

    def fits(self, growth: int, size: int) -> bool:
        """Whether a body of now `size` bytes, `growth` of them new, is no larger than what is then left."""
        return size <= self.total - self.reserved - growth and (size <= SMALL_BODY or self._reserve.acquire())

    def release_reserve(self) -> None:
        """Free the memory reserve: the system had no memory for something."""
        self._reserve.release()

    def notify_freed(self) -> None:
        """Wake the waiters: memory was freed."""
        if self._waiting:
            self._freed.set()

    async def wait(self, growth: int, size: int) -> None:
        """Wait until it fits. Raises `OverBudget` if it cannot, or not in time, with too many waiters or no reserve."""
        if size > self.max_size or self._waiting >= MAX_WAITING or not self._reserve.held:
            raise self._over_budget()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_TIMEOUT):
                while not self.fits(growth, size):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            raise self._over_budget() from None
        finally:
            self._waiting -= 1

    def _over_budget(self) -> OverBudget:
        NO_ROOM.labels("body").inc()
        return OverBudget(f"{self.reserved} of {self.total} bytes are in use")


BODY_BYTES.set_function(lambda: sum(budget.reserved for budget in tuple(_BUDGETS)))


class Reservation:
    """One body's share of the budget. `waiting`: it needs more than it has got."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0
        self.waiting = False

    @property
    def max_size(self) -> int:
        """The most it may ever reserve."""
        return self._budget.max_size

    async def resize(self, size: int) -> None:
        """Reserve `size` bytes in all, more or fewer than before. On `OverBudget` the reservation is unchanged."""
        growth = size - self.size
        if growth > 0 and not self._budget.fits(growth, size):
            self.waiting = True
            await self._budget.wait(growth, size)
            self.waiting = False
        self._set_size(size)

    def shrink(self, size: int) -> None:
        """Reserve at most `size` bytes from now on."""
        if size < self.size:
            self._set_size(size)

    def _set_size(self, size: int) -> None:
        """Update both counts or neither; the notification afterwards may fail for lack of memory."""
        growth = size - self.size
        self._budget.reserved, self.size = self._budget.reserved + growth, size
        if growth < 0:
            self._budget.notify_freed()

    def __enter__(self) -> Reservation:
        """Start with nothing reserved."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Free everything."""
        self.shrink(0)
