"""Tests of the bulkhead."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.util.bulkhead import Bulkhead, BulkheadFull


async def test_beyond_limit_and_queue_tasks_fail_at_once() -> None:
    """Of ten tasks two run at a time, three wait and run later, five get `BulkheadFull` without waiting."""
    bulkhead, running, peak, order = Bulkhead(2, 3), 0, 0, []
    release = asyncio.Event()

    async def work(number: int) -> None:
        nonlocal running, peak
        async with bulkhead:
            running += 1
            peak = max(peak, running)
            order.append(number)
            await release.wait()
            running -= 1

    tasks = [asyncio.ensure_future(work(number)) for number in range(10)]
    for _ in range(3):
        await asyncio.sleep(0)
    refused = [task for task in tasks if task.done()]
    assert len(refused) == 5
    release.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 5 + [BulkheadFull] * 5
    assert peak == 2
    assert order == [0, 1, 2, 3, 4]


async def test_a_cancelled_waiter_leaves_the_queue() -> None:
    """A cancelled waiter no longer counts, and takes no slot."""
    bulkhead = Bulkhead(1, 1)
    async with bulkhead:
        waiter = asyncio.ensure_future(bulkhead.__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(BulkheadFull):
            await bulkhead.__aenter__()
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        second = asyncio.ensure_future(bulkhead.__aenter__())
        await asyncio.sleep(0)
        assert not second.done()
    await second
    await bulkhead.__aexit__(None, None, None)
    async with bulkhead:
        pass


async def test_without_a_queue_nothing_waits() -> None:
    """A queue of 0 rejects tasks while all slots are taken; an error inside frees the slot."""
    bulkhead = Bulkhead(1, 0)

    async def fail() -> None:
        async with bulkhead:
            with pytest.raises(BulkheadFull):
                await bulkhead.__aenter__()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with bulkhead:
        pass


async def test_an_unbounded_queue_rejects_nothing() -> None:
    """With `queue=None` any number of tasks may wait."""
    bulkhead, release = Bulkhead(2, None), asyncio.Event()

    async def work() -> None:
        async with bulkhead:
            await release.wait()

    tasks = [asyncio.ensure_future(work()) for _ in range(100)]
    await asyncio.sleep(0)
    assert bulkhead.occupants == 100
    release.set()
    await asyncio.gather(*tasks)
    assert bulkhead.occupants == 0


async def _hold(bulkhead: Bulkhead, client: str, order: list[str], release: asyncio.Event) -> None:
    async with bulkhead.slot(client):
        order.append(client)
        await release.wait()


async def test_clients_take_turns() -> None:
    """One that asks ten times is served as often as one that asks twice, until that one has nothing left."""
    bulkhead, order, release = Bulkhead(1, 20), list[str](), asyncio.Event()
    release.set()
    names = ["loud"] * 10 + ["quiet"] * 2
    async with bulkhead:
        tasks = [asyncio.ensure_future(_hold(bulkhead, name, order, release)) for name in names]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order[:4] == ["loud", "quiet", "loud", "quiet"]
    assert order[4:] == ["loud"] * 8
    assert bulkhead.occupants == 0


async def test_a_full_queue_makes_room_for_a_client_that_waits_less() -> None:
    """The latest task of the one that fills the queue is refused; alone it gets no more room than the queue has."""
    bulkhead, order, release = Bulkhead(1, 3), list[str](), asyncio.Event()
    loud = [asyncio.ensure_future(_hold(bulkhead, "loud", order, release)) for _ in range(5)]
    await asyncio.sleep(0)
    quiet = asyncio.ensure_future(_hold(bulkhead, "quiet", order, release))
    await asyncio.sleep(0)
    release.set()
    outcomes = await asyncio.gather(*loud, quiet, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 3 + [BulkheadFull] * 2 + [type(None)]
    assert order == ["loud", "loud", "quiet", "loud"]
    assert bulkhead.occupants == 0
    await asyncio.wait_for(_hold(bulkhead, "later", order, release), 10)


async def test_a_client_cannot_displace_one_that_waits_as_little() -> None:
    """Both have one waiting: the newcomer of the second is refused."""
    bulkhead, order, release = Bulkhead(1, 2), list[str](), asyncio.Event()
    tasks = [asyncio.ensure_future(_hold(bulkhead, name, order, release)) for name in ("a", "a", "b")]
    await asyncio.sleep(0)
    with pytest.raises(BulkheadFull):
        async with bulkhead.slot("b"):
            pass
    release.set()
    await asyncio.gather(*tasks)
    assert order == ["a", "a", "b"]


async def test_a_task_that_is_cancelled_as_its_turn_comes_passes_the_slot_on() -> None:
    """The slot is not lost."""
    bulkhead, order, release = Bulkhead(1, 2), list[str](), asyncio.Event()
    release.set()
    async with bulkhead:
        cancelled = asyncio.ensure_future(_hold(bulkhead, "a", order, release))
        served = asyncio.ensure_future(_hold(bulkhead, "b", order, release))
        await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, served, return_exceptions=True)
    assert order == ["b"]
    assert bulkhead.occupants == 0
    await asyncio.wait_for(_hold(bulkhead, "later", order, release), 10)


async def test_a_task_that_is_cancelled_before_a_slot_becomes_free_leaves_once() -> None:
    """In the same iteration of the event loop: it is cancelled as usual, and every slot and place is free again."""
    bulkhead, order, release = Bulkhead(1, 1), list[str](), asyncio.Event()
    release.set()
    for _ in range(3):
        async with bulkhead:
            waiter = asyncio.ensure_future(_hold(bulkhead, "a", order, release))
            await asyncio.sleep(0)
            waiter.cancel()
        outcomes = await asyncio.gather(waiter, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError]
        assert bulkhead.occupants == 0
    await asyncio.wait_for(_hold(bulkhead, "later", order, release), 10)


async def test_a_task_cancelled_beside_others_of_its_client_leaves_once() -> None:
    """Its client still has a task that waits, which gets the slot."""
    bulkhead, order, release = Bulkhead(1, 2), list[str](), asyncio.Event()
    release.set()
    async with bulkhead:
        tasks = [asyncio.ensure_future(_hold(bulkhead, "a", order, release)) for _ in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError, type(None)]
    assert (order, bulkhead.occupants) == (["a"], 0)


async def test_a_newcomer_takes_the_place_of_a_cancelled_task() -> None:
    """In the same iteration of the event loop: nobody else is refused, and the cancelled task leaves once."""
    bulkhead, order, release = Bulkhead(1, 3), list[str](), asyncio.Event()
    release.set()
    async with bulkhead:
        tasks = [asyncio.ensure_future(_hold(bulkhead, "a", order, release)) for _ in range(3)]
        newcomer = asyncio.ensure_future(_cancel_and_hold(tasks[2], bulkhead, order, release))
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*tasks, newcomer, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 2 + [asyncio.CancelledError, type(None)]
    assert (order, bulkhead.occupants) == (["a", "a", "a"], 0)


async def _cancel_and_hold(task: asyncio.Task[None], bulkhead: Bulkhead, order: list[str], free: asyncio.Event) -> None:
    task.cancel()
    await _hold(bulkhead, "a", order, free)
