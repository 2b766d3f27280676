"""Bounds on the judge's traffic: budgets per period, a circuit breaker, a retry budget.

All in the process and on the monotonic clock; every structure here has a fixed bound on its memory.
"""

from __future__ import annotations

import time
from collections import deque

from sidecar.errors import LayerError
from sidecar.util import logs
from sidecar.util.units import Rate

_log = logs.get("llm_judge")


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
    def left(self) -> float:
        """The share that could be spent now, from 0.0 to 1.0."""
        self.fits(0)
        return max(0.0, 1 - self._spent / self._rate.requests)

    def charge(self, cost: int) -> Charge:
        """Spend; ask `fits` first."""
        entry = Charge(time.monotonic(), cost)
        self._charges.append(entry)
        self._spent += cost
        return entry

    def settle(self, entry: Charge, cost: int) -> None:
        """Correct what an entry cost. An entry of a period gone by no longer counts."""
        if self._charges and entry.at >= self._charges[0].at:
            self._spent += cost - entry.cost
            entry.cost = cost


class Breaker:
    """Leaves the judge alone for `pause` seconds after `failures` failures in a row, then lets one call try."""

    def __init__(self, failures: int, pause: float) -> None:
        self._limit = failures
        self._pause = pause
        self._failures = 0
        self._until = 0.0
        self._trial = False

    def check(self) -> None:
        """Raise `LayerError("breaker_open")` if no call may be made now; costs microseconds."""
        if self._trial or time.monotonic() < self._until:
            raise LayerError("breaker_open")

    def admit(self) -> None:
        """The same for a call that is about to be made: the first after a pause is a trial, and alone."""
        self.check()
        self._trial = self._failures >= self._limit

    def success(self) -> None:
        """The judge's server answered."""
        if self._failures >= self._limit:
            _log.info("judge_resumed")
        self._failures, self._until, self._trial = 0, 0.0, False

    def failure(self, reason: str) -> None:
        """The judge's server failed; `reason` is a type or a status, never text of an answer."""
        self._failures += 1
        self._trial = False
        if self._failures >= self._limit:
            self._until = time.monotonic() + self._pause
            _log.warning("judge_paused", reason=reason, failures=self._failures, seconds=self._pause)

    def hold(self, seconds: float) -> None:
        """The judge's server asked to be left alone; believed for at most `pause` seconds."""
        self._until = max(self._until, time.monotonic() + min(seconds, self._pause))

    def release(self) -> None:
        """A call ended without telling anything about the server: another may try."""
        self._trial = False


class RetryBudget:
    """Retries stay within a fifth of the calls, so that a failing judge is not also flooded."""

    SHARE = 0.2
    MOST = 10.0

    def __init__(self) -> None:
        self._saved = self.MOST / 2

    def call(self) -> None:
        """A first attempt was made."""
        self._saved = min(self.MOST, self._saved + self.SHARE)

    def take(self) -> bool:
        """Whether a retry may be made; if so it is paid for."""
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True
