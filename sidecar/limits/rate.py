"""The rate limit per key, and its implementation for one process.

It is GCRA: a key earns one request every `period / requests` seconds and may spend `burst` of them at once. The whole
state of a key is its theoretical arrival time (TAT), the moment until which its requests so far are paid for.
Invariant: a request is within the rate if and only if its new TAT is at most `burst` intervals ahead of now.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Protocol

from sidecar.util.units import Rate

MAX_KEYS = 100_000
_ROUNDING = 1e-6


class Limiter(Protocol):
    """Counts requests per key."""

    async def take(self, key: str, rate: Rate, burst: int, cost: int = 1) -> float:
        """Count `cost` requests and return 0.0 if they are within the rate; else return the seconds to wait."""
        ...

    async def peek(self, key: str, rate: Rate, burst: int) -> float:
        """What `take` would return, without counting."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class MemoryLimiter:
    """The limit of this process, for at most `size` keys; the least recently used is evicted."""

    def __init__(self, size: int = MAX_KEYS) -> None:
        self._size = size
        self._tat: OrderedDict[str, float] = OrderedDict()

    async def take(self, key: str, rate: Rate, burst: int, cost: int = 1) -> float:
        """See `Limiter`. Uses the monotonic clock."""
        wait, tat = self._next(key, rate, burst, cost)
        if not wait:
            self._tat[key] = tat
        if key in self._tat:
            self._tat.move_to_end(key)
        if len(self._tat) > self._size:
            self._tat.popitem(last=False)
        return wait

    async def peek(self, key: str, rate: Rate, burst: int) -> float:
        """See `Limiter`."""
        return self._next(key, rate, burst)[0]

    def _next(self, key: str, rate: Rate, burst: int, cost: int = 1) -> tuple[float, float]:
        """Seconds to wait before `cost` more requests, and the key's TAT after them."""
        now, interval = time.monotonic(), rate.period / rate.requests
        tat = max(self._tat.get(key, now), now) + interval * cost
        wait = tat - now - interval * burst
        return wait if wait > _ROUNDING else 0.0, tat

    async def close(self) -> None:
        """Nothing to close."""
