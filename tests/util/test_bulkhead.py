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
