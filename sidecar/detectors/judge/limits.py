"""Limits of the judge's traffic: a bulkhead, budgets per period, a circuit breaker, a retry budget.

All are local to the process and use the monotonic clock; every structure has bounded memory.
"""

from __future__ import annotations

import time
from collections import deque

from sidecar.errors import LayerError
from sidecar.util import logs
from sidecar.util.units import Rate

_log = logs.get("llm_judge")


class Charge:
    """One entry of a budget; its `cost` is corrected once the actual cost is known."""

    __slots__ = ("at", "cost")

    def __init__(self, at: float, cost: int) -> None:
        self.at = at
        self.cost = cost


class Budget:
    """Never more than `rate.requests` units within any `rate.period` seconds: an exact sliding window."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._charges: deque[Charge] = deque()
        self._charged = 0

    def fits(self, cost: int) -> bool:
        """Whether `cost` more units can be spent now."""
        oldest = time.monotonic() - self._rate.period
        while self._charges and self._charges[0].at <= oldest:
            self._charged -= self._charges.popleft().cost
        return self._charged + cost <= self._rate.requests

    @property
    def remaining(self) -> float:
        """The share that can be spent now, from 0.0 to 1.0."""
        self.fits(0)
        return max(0.0, 1 - self._charged / self._rate.requests)

    def charge(self, cost: int) -> Charge:
        """Spend; call `fits` first."""
        entry = Charge(time.monotonic(), cost)
        self._charges.append(entry)
        self._charged += cost
        return entry

    def correct(self, entry: Charge, cost: int) -> None:
        """Correct the cost of an entry. An entry of an earlier period no longer counts."""
        if self._charges and entry.at >= self._charges[0].at:
            self._charged += cost - entry.cost
            entry.cost = cost


class CircuitBreaker:
    """Opens for `pause` seconds after `failures` consecutive failures, then admits one trial call."""

    def __init__(self, failures: int, pause: float) -> None:
        self._threshold = failures
        self._pause = pause
        self._failures = 0
        self._open_until = 0.0
        self._half_open = False

    def check(self) -> None:
        """Raise `LayerError("breaker_open")` if no call is allowed now; costs microseconds."""
        if self._half_open or time.monotonic() < self._open_until:
            raise LayerError("breaker_open")

    def admit(self) -> None:
        """The same for a call about to be made: the first after a pause is the only trial."""
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
        """The judge's server asked for a pause (`Retry-After`), accepted for at most `pause` seconds."""
        self._open_until = max(self._open_until, time.monotonic() + min(seconds, self._pause))

    def release(self) -> None:
        """A call ended without information about the server: another may try."""
        self._half_open = False


class RetryBudget:
    """Limits retries to a fifth of the calls, so that a failing judge is not flooded as well."""

    SHARE = 0.2
    MAX_BALANCE = 10.0

    def __init__(self) -> None:
        self._balance = self.MAX_BALANCE / 2

    def record_call(self) -> None:
        """Record a first attempt."""
        self._balance = min(self.MAX_BALANCE, self._balance + self.SHARE)

    def take(self) -> bool:
        """Whether a retry is allowed; if so it is charged."""
        if self._balance < 1.0:
            return False
        self._balance -= 1.0
        return True
