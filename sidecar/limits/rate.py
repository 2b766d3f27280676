"""The rate limit per key, and its form for one process.

It is GCRA: a key earns one request every `period / requests` seconds and may spend `burst` of them at
once. The whole state of a key is one number, the moment at which its earnings are used up.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Protocol

from sidecar.util.units import Rate

LARGEST = 100_000
_ROUNDING = 1e-6


class Limiter(Protocol):
    """Counts requests per key."""

    async def take(self, key: str, rate: Rate, burst: int) -> float:
        """0.0 when one more request is within the rate, which counts it; else the seconds to wait."""
        ...

    async def wait(self, key: str, rate: Rate, burst: int) -> float:
        """What `take` would answer, without counting."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class MemoryLimiter:
    """The limit of this process alone, for at most `size` keys; the one unused for longest is forgotten first."""

    def __init__(self, size: int = LARGEST) -> None:
        self._size = size
        self._due: OrderedDict[str, float] = OrderedDict()

    async def take(self, key: str, rate: Rate, burst: int) -> float:
        """See `Limiter`; on the monotonic clock."""
        wait, due = self._next(key, rate, burst)
        if not wait:
            self._due[key] = due
        self._due.move_to_end(key)
        if len(self._due) > self._size:
            self._due.popitem(last=False)
        return wait

    async def wait(self, key: str, rate: Rate, burst: int) -> float:
        """See `Limiter`."""
        return self._next(key, rate, burst)[0]

    def _next(self, key: str, rate: Rate, burst: int) -> tuple[float, float]:
        """How long to wait before one more, and what its earnings are used up by then."""
        now, interval = time.monotonic(), rate.period / rate.requests
        due = max(self._due.get(key, now), now) + interval
        wait = due - now - interval * burst
        return wait if wait > _ROUNDING else 0.0, due

    async def close(self) -> None:
        """Nothing to let go of."""
