"""What bounds the judge's traffic: places and a queue, budgets per period, a breaker, a retry budget.

All in the process and on the monotonic clock; every structure here has a fixed bound on its memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from types import TracebackType

from sidecar.errors import LayerError
from sidecar.util import logs
from sidecar.util.units import Rate

_log = logs.get("llm_judge")


class Bulkhead:
    """So many calls at once, so many waiting; one more raises `LayerError("queue_full")` at once."""

    def __init__(self, concurrency: int, queue: int) -> None:
        self._semaphore = asyncio.Semaphore(concurrency)
        self._capacity = concurrency + queue
        self._occupied = 0

    async def __aenter__(self) -> None:
        """Wait for a place."""
        if self._occupied >= self._capacity:
            raise LayerError("queue_full")
        self._occupied += 1
        try:
            await self._semaphore.acquire()
        except BaseException:
            self._occupied -= 1
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the place back."""
        self._occupied -= 1
        self._semaphore.release()


class Charge:
    """One entry of a budget; its `cost` may be corrected once the true one is known."""

    __slots__ = ("at", "cost")

    def __init__(self, at: float, cost: int) -> None:
        self.at = at
        self.cost = cost


class Budget:
    """Never more than `rate.requests` units within any `rate.period` seconds: an exact sliding window."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._charges: deque[Charge] = deque()
        self._spent = 0

    def fits(self, cost: int) -> bool:
        """Whether `cost` more units can be spent now."""
        oldest = time.monotonic() - self._rate.period
        while self._charges and self._charges[0].at <= oldest:
            self._spent -= self._charges.popleft().cost
        return self._spent + cost <= self._rate.requests

    @property
    def remaining(self) -> float:
        """The share that could be spent now, from 0.0 to 1.0."""
        self.fits(0)
        return max(0.0, 1 - self._spent / self._rate.requests)

    def charge(self, cost: int) -> Charge:
        """Spend; ask `fits` first."""
        entry = Charge(time.monotonic(), cost)
        self._charges.append(entry)
        self._spent += cost
        return entry

    def correct(self, entry: Charge, cost: int) -> None:
        """Correct what an entry cost. An entry of a period gone by no longer counts."""
        if self._charges and entry.at >= self._charges[0].at:
            self._spent += cost - entry.cost
            entry.cost = cost


class CircuitBreaker:
    """Leaves the judge alone for `pause` seconds after `failures` failures in a row, then lets one call try."""

    def __init__(self, failures: int, pause: float) -> None:
        self._threshold = failures
        self._pause = pause
        self._failures = 0
        self._open_until = 0.0
        self._half_open = False

    def check(self) -> None:
        """Raise `LayerError("breaker_open")` if no call may be made now; costs microseconds."""
        if self._half_open or time.monotonic() < self._open_until:
            raise LayerError("breaker_open")

    def admit(self) -> None:
        """The same for a call that is about to be made: the first after a pause is a trial, and alone."""
        self.check()
        self._half_open = self._failures >= self._threshold

    def success(self) -> None:
        """The judge's server answered."""
        if self._failures >= self._threshold:
            _log.info("judge_resumed")
        self._failures, self._open_until, self._half_open = 0, 0.0, False

    def failure(self, reason: str) -> None:
        """The judge's server failed; `reason` is a type or a status, never text of an answer."""
        self._failures += 1
        self._half_open = False
        if self._failures >= self._threshold:
            self._open_until = time.monotonic() + self._pause
            _log.warning("judge_paused", reason=reason, failures=self._failures, seconds=self._pause)

    def pause_for(self, seconds: float) -> None:
        """The judge's server asked to be left alone; believed for at most `pause` seconds."""
        self._open_until = max(self._open_until, time.monotonic() + min(seconds, self._pause))

    def release(self) -> None:
        """A call ended without telling anything about the server: another may try."""
        self._half_open = False


class RetryBudget:
    """Retries stay within a fifth of the calls, so that a failing judge is not also flooded."""

    SHARE = 0.2
    MAX_BALANCE = 10.0

    def __init__(self) -> None:
        self._balance = self.MAX_BALANCE / 2

    def record_call(self) -> None:
        """A first attempt was made."""
        self._balance = min(self.MAX_BALANCE, self._balance + self.SHARE)

    def take(self) -> bool:
        """Whether a retry may be made; if so it is paid for."""
        if self._balance < 1.0:
            return False
        self._balance -= 1.0
        return True
