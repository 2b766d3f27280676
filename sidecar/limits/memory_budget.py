"""Memory budget for the bodies of all requests in flight, and its fair sharing.

A body may reserve at most as much as is then still free, and so may all bodies of a client together. So nothing has to
be set aside per request, and yet large bodies never starve small ones, nor a client another: with n clients that take
all they can get, each has 1/(n+1), and as much stays free.

When the system itself is out of memory, bodies that are not small are rejected until the reserve is held again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from types import TracebackType
from weakref import WeakSet

from sidecar.errors import SidecarError
from sidecar.limits.memory_reserve import MemoryReserve
from sidecar.observability.metrics import BODY_BYTES, NO_ROOM

MAX_WAITING = 64
"""Bodies waiting for memory, of one client at most half of them. Each has sent more than was read of it, so this bounds
that memory, too."""
WAIT_TIMEOUT = 2.0
"""Seconds a body waits for memory before it is rejected."""
SMALL_BODY = 16 * 1024
"""Bytes that a body may take even without the reserve: most chats need less."""


_BUDGETS: WeakSet[MemoryBudget] = WeakSet()


class OverBudget(SidecarError):
    """The budget has too little left for this body, and not enough was freed in time."""


class MemoryBudget:
    """`total` bytes for all bodies. `total` may be changed at any time; it applies to later reservations.

    Invariant: `reserved` is the sum of `Reservation.size` over all reservations; `by_client` has the sum of each client
    that has a body.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.reserved = 0
        self.by_client: dict[str, int] = {}
        self._waiting = Counter[str]()
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

    def fits(self, growth: int, size: int, client: str = "") -> bool:
        """Whether a body of now `size` bytes, `growth` of them new, is no larger than what is then left.

        Of a body that is not small, the same must hold for all bodies of its client together.
        """
        left = self.total - self.reserved - growth
        if size <= SMALL_BODY:
            return size <= left
        return max(size, self.by_client.get(client, 0) + growth) <= left and self._reserve.acquire()

    def release_reserve(self) -> None:
        """Free the memory reserve: the system had no memory for something."""
        self._reserve.release()

    def notify_freed(self) -> None:
        """Wake the waiters: memory was freed."""
        if self._waiting:
            self._freed.set()

    async def wait(self, growth: int, size: int, client: str = "") -> None:
        """Wait until it fits. Raises `OverBudget` if it cannot, or not in time, with too many waiters or no reserve."""
        if size > self.max_size or self._is_queue_full(client) or not self._reserve.held:
            raise self._over_budget()
        self._waiting[client] += 1
        try:
            async with asyncio.timeout(WAIT_TIMEOUT):
                while not self.fits(growth, size, client):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            raise self._over_budget() from None
        finally:
            self._waiting -= Counter({client: 1})

    def _is_queue_full(self, client: str) -> bool:
        return self._waiting.total() >= MAX_WAITING or (client != "" and self._waiting[client] >= MAX_WAITING // 2)

    def _over_budget(self) -> OverBudget:
        NO_ROOM.labels("body").inc()
        return OverBudget(f"{self.reserved} of {self.total} bytes are in use")


BODY_BYTES.set_function(lambda: sum(budget.reserved for budget in tuple(_BUDGETS)))


class Reservation:
    """One body's share of the budget. `waiting`: it needs more than it has got.

    `client`: whose body it is; set it before the first `resize`. Bodies without one do not count together.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0
        self.waiting = False
        self.client = ""

    @property
    def max_size(self) -> int:
        """The most it may ever reserve."""
        return self._budget.total // 2

    async def resize(self, size: int) -> None:
        """Reserve `size` bytes in all, more or fewer than before. On `OverBudget` the reservation is unchanged."""
        growth = size - self.size
        if growth > 0 and not self._budget.fits(growth, size, self.client):
            self.waiting = True
            await self._budget.wait(growth, size, self.client)
            self.waiting = False
        self._set_size(size)

    def shrink(self, size: int) -> None:
        """Reserve at most `size` bytes from now on."""
        if size < self.size:
            self._set_size(size)

    def _set_size(self, size: int) -> None:
        """Update all counts or none; the notification afterwards may fail for lack of memory."""
        growth, budget = size - self.size, self._budget
        if self.client:
            of_client = budget.by_client.get(self.client, 0) + growth
            budget.by_client[self.client] = of_client  # the only step that may fail for lack of memory
            if not of_client:
                del budget.by_client[self.client]
        budget.reserved, self.size = budget.reserved + growth, size
        if growth < 0:
            budget.notify_freed()

    def __enter__(self) -> Reservation:
        """Start with nothing reserved."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Free everything."""
        self.shrink(0)
