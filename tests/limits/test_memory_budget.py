"""Tests of the memory budget."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from sidecar.limits import MemoryBudget, OverBudget
from sidecar.limits.memory_budget import MAX_WAITING, SMALL_BODY


async def test_a_body_reserves_at_most_what_is_then_left() -> None:
    """Alone half of the budget; n bodies that take all they can get have 1/(n+1) each, and as much stays free."""
    budget = MemoryBudget(1000)
    with budget.reserve() as first, budget.reserve() as second:
        await first.resize(500)
        await second.resize(250)
        assert budget.fits(125, 125)
        assert not budget.fits(126, 126)
        second.shrink(300)
        assert budget.reserved == 750
        second.shrink(100)
        assert budget.reserved == 600
    assert budget.reserved == 0


async def test_a_client_reserves_at_most_what_is_then_left() -> None:
    """However many bodies a client has, another finds as much as the first took; small bodies have no such bound."""
    budget = MemoryBudget(1_000_000)
    with ExitStack() as stack:
        bodies = [stack.enter_context(budget.reserve()) for _ in range(6)]
        for body in bodies:
            body.client = "many"
        for body in bodies[:5]:
            await body.resize(100_000)
        assert not budget.fits(100_000, 100_000, "many")
        assert budget.fits(SMALL_BODY, SMALL_BODY, "many")
        assert budget.fits(250_000, 250_000, "other")
        bodies[0].shrink(0)
        await bodies[5].resize(100_000)
    assert budget.by_client == {}


async def test_a_client_leaves_others_room_to_wait() -> None:
    """One client has at most half of the places of those who wait."""
    budget = MemoryBudget(1_000_000)
    with ExitStack() as stack:
        bodies = [stack.enter_context(budget.reserve()) for _ in range(MAX_WAITING)]
        for body in bodies[:-1]:
            body.client = "many"
        await bodies[0].resize(500_000)
        waiters = [asyncio.ensure_future(body.resize(100_000)) for body in bodies[1 : MAX_WAITING // 2 + 1]]
        await asyncio.sleep(0)
        async with asyncio.timeout(0.5):
            with pytest.raises(OverBudget):
                await bodies[-2].resize(100_000)
        bodies[-1].client = "other"
        await bodies[-1].resize(100_000)
        for task in waiters:
            task.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)


async def test_what_can_never_fit_is_rejected_at_once() -> None:
    """Without waiting; the reservation is unchanged."""
    budget = MemoryBudget(1000)
    with budget.reserve() as reservation:
        await reservation.resize(10)
        async with asyncio.timeout(0.5):
            with pytest.raises(OverBudget):
                await reservation.resize(501)
        assert (reservation.size, budget.reserved) == (10, 10)


async def test_a_waiter_continues_when_memory_is_freed() -> None:
    """All waiters check again whenever memory is freed."""
    budget = MemoryBudget(1000)
    with budget.reserve() as large, budget.reserve() as second, budget.reserve() as third:
        await large.resize(500)
        await second.resize(250)
        waiters = asyncio.ensure_future(third.resize(200))
        await asyncio.sleep(0)
        assert not waiters.done()
        large.shrink(0)
        await waiters
        assert budget.reserved == 450


async def test_waiting_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter fails after `WAIT_TIMEOUT` and leaves no trace in the budget."""
    monkeypatch.setattr("sidecar.limits.memory_budget.WAIT_TIMEOUT", 0.05)
    budget = MemoryBudget(1000)
    with budget.reserve() as large, budget.reserve() as small:
        await large.resize(500)
        with pytest.raises(OverBudget):
            await small.resize(251)
        await small.resize(250)


async def test_the_number_of_waiters_is_bounded() -> None:
    """Waiting bodies take memory too, so one beyond `MAX_WAITING` fails at once."""
    budget = MemoryBudget(1000)
    with ExitStack() as stack:
        leases = [stack.enter_context(budget.reserve()) for _ in range(MAX_WAITING + 2)]
        await leases[0].resize(500)
        waiters = [asyncio.ensure_future(reservation.resize(300)) for reservation in leases[1:-1]]
        await asyncio.sleep(0)
        async with asyncio.timeout(0.5):
            with pytest.raises(OverBudget):
                await leases[-1].resize(300)
        for task in waiters:
            task.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        await leases[-1].resize(250)


async def test_the_total_may_change() -> None:
    """Reservations stay; later ones are checked against the new total."""
    budget = MemoryBudget(1000)
    with budget.reserve() as reservation:
        await reservation.resize(400)
        budget.total = 600
        assert not budget.fits(201, 201)
        budget.total = 4000
        await reservation.resize(2000)


class FailingNotification(MemoryBudget):
    """A budget that has no memory to notify waiters."""

    def notify_freed(self) -> None:
        """Fail."""
        raise MemoryError


async def test_counts_stay_right_when_the_notification_fails() -> None:
    """The reservation is freed exactly once."""
    budget = FailingNotification(1000)
    with pytest.raises(MemoryError), budget.reserve() as reservation:
        await reservation.resize(10)
    assert (reservation.size, budget.reserved) == (0, 0)
