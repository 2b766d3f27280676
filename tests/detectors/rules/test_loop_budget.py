"""Time slices of work on the event loop."""

from __future__ import annotations

import asyncio
import time

import pytest

from sidecar.detectors.rules import loop_budget
from sidecar.detectors.rules.loop_budget import TIME_SLICE, LoopBudget


class Work:
    """The order in which tasks held the loop."""

    def __init__(self, loop_budget: LoopBudget) -> None:
        self.turn = loop_budget
        self.order: list[str] = []

    async def do(self, name: str, seconds: float = 0.0) -> None:
        """Hold the loop so long."""
        async with self.turn:
            self.order.append(name)
            time.sleep(seconds)  # noqa: ASYNC251 - holding the loop is what is tested


async def test_other_tasks_run_between_time_slices() -> None:
    """With the slice used up, a task waits for the next one, and other ready tasks run first."""
    work = Work(LoopBudget())
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work.do(name, 2 * TIME_SLICE))
        asyncio.get_running_loop().call_soon(work.order.append, "served")
    assert work.order == ["a", "served", "b", "c"]


async def test_short_work_shares_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task waits while the slice has time left."""
    monkeypatch.setattr(loop_budget, "TIME_SLICE", 60.0)
    work = Work(LoopBudget())
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work.do(name))
        asyncio.get_running_loop().call_soon(work.order.append, "served")
    assert work.order == ["a", "b", "c", "served"]


async def test_who_comes_first_is_first() -> None:
    """Repeated entries do not starve other waiters."""
    work = Work(LoopBudget())

    async def greedy() -> None:
        for _ in range(10):
            await work.do("greedy", TIME_SLICE)

    async with asyncio.TaskGroup() as group:
        group.create_task(greedy())
        group.create_task(work.do("other"))
    assert work.order.index("other") <= 2


async def test_work_that_fails_counts_too() -> None:
    """A failure is charged, and the next slice still comes."""
    work = Work(LoopBudget())
    work.order = []

    async def fail() -> None:
        async with work.turn:
            time.sleep(2 * TIME_SLICE)  # noqa: ASYNC251 - as above
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        await fail()
    asyncio.get_running_loop().call_soon(work.order.append, "served")
    await work.do("next")
    assert work.order == ["served", "next"]


@pytest.mark.parametrize("late", [False, True])
async def test_who_is_given_up_keeps_nobody_waiting(late: bool) -> None:
    """Cancellation is safe while waiting and when just woken."""
    work = Work(LoopBudget())
    async with asyncio.TaskGroup() as group:
        group.create_task(work.do("a", 2 * TIME_SLICE))
        given_up = group.create_task(work.do("b"))
        group.create_task(work.do("c"))
        if late:
            group.create_task(work.do("d"))
            asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(given_up.cancel))
        else:
            asyncio.get_running_loop().call_soon(given_up.cancel)
    assert work.order[0] == "a"
    assert "c" in work.order


def test_another_loop_begins_anew() -> None:
    """A loop that ended during a slice leaves no state behind."""
    work = Work(LoopBudget())

    async def stopped() -> None:
        await work.do("a", 2 * TIME_SLICE)
        asyncio.get_running_loop().stop()

    first = asyncio.new_event_loop()
    task = first.create_task(stopped())
    first.run_forever()
    asyncio.run(work.do("b"))
    assert work.order == ["a", "b"]
    first.run_until_complete(task)
    first.close()
