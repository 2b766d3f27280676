"""Bulkhead, budgets, circuit breaker and retry budget."""

from __future__ import annotations

import time

import pytest

from sidecar.detectors.judge.limits import Budget, CircuitBreaker, RetryBudget
from sidecar.errors import LayerError
from sidecar.util.units import Rate


def test_a_budget_is_never_exceeded_in_any_period() -> None:
    """Greedy spending over several periods: no window of one period holds more than the rate."""
    budget, spent = Budget(Rate(5, 0.05)), []
    ends = time.monotonic() + 0.3
    while time.monotonic() < ends:
        if budget.fits(1):
            spent.append(budget.charge(1).at)
    assert len(spent) >= 15
    assert all(later - earlier >= 0.05 for earlier, later in zip(spent, spent[5:], strict=False))


def test_a_corrected_charge_counts_the_actual_cost() -> None:
    """The reserve of a call is given back once the true cost is known."""
    budget = Budget(Rate(100, 60.0))
    entry = budget.charge(90)
    assert not budget.fits(20)
    budget.correct(entry, 10)
    assert budget.fits(90)
    assert not budget.fits(91)


def test_what_is_left_of_a_budget_is_a_share() -> None:
    """For the metric: 1 when untouched, 0 when spent, back once the period is over."""
    budget = Budget(Rate(100, 0.05))
    assert budget.remaining == 1.0
    budget.charge(75)
    assert budget.remaining == 0.25
    budget.charge(25)
    assert budget.remaining == 0.0
    time.sleep(0.06)
    assert budget.remaining == 1.0


def test_a_correction_after_the_period_changes_nothing() -> None:
    """Charges outside the window are not corrected."""
    budget = Budget(Rate(100, 0.01))
    entry = budget.charge(90)
    time.sleep(0.02)
    assert budget.fits(100)
    budget.correct(entry, 5)
    assert budget.fits(100)
    assert not budget.fits(101)


def test_the_breaker_lets_a_single_call_try() -> None:
    """After the pause only one trial call is admitted."""
    breaker = CircuitBreaker(1, 0.4)
    breaker.failure("status_500")
    with pytest.raises(LayerError, match="breaker_open"):
        breaker.check()
    time.sleep(0.45)
    breaker.admit()
    with pytest.raises(LayerError, match="breaker_open"):
        breaker.admit()
    breaker.release()
    breaker.admit()
    breaker.success()
    breaker.admit()
    breaker.admit()


def test_a_success_between_failures_starts_the_count_anew() -> None:
    """Only failures in a row open the breaker."""
    breaker = CircuitBreaker(2, 60.0)
    for _ in range(5):
        breaker.failure("status_500")
        breaker.success()
    breaker.admit()


def test_a_failed_trial_pauses_again() -> None:
    """One more failure after the pause is enough."""
    breaker = CircuitBreaker(3, 0.4)
    for _ in range(3):
        breaker.failure("status_500")
    time.sleep(0.45)
    breaker.admit()
    breaker.failure("status_500")
    with pytest.raises(LayerError, match="breaker_open"):
        breaker.check()


def test_a_wish_to_be_left_alone_is_believed_up_to_the_pause() -> None:
    """`Retry-After` of a day does not switch the judge off for a day."""
    breaker = CircuitBreaker(3, 0.4)
    breaker.pause_for(86_400)
    with pytest.raises(LayerError, match="breaker_open"):
        breaker.check()
    time.sleep(0.45)
    breaker.check()


def test_retries_are_a_fifth_of_the_calls() -> None:
    """Of a thousand failing calls at most a fifth, plus the saved balance, are retried."""
    budget, retries = RetryBudget(), 0
    for _ in range(1000):
        budget.record_call()
        retries += budget.take()
    assert 190 <= retries <= 200 + RetryBudget.MAX_BALANCE
