"""The bound on how many run and how many wait."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.limits import Concurrency, QueueFull


async def test_so_many_run_so_many_wait_and_the_rest_is_told_at_once() -> None:
    """Of ten, two run at a time, three wait and run later, five hear `QueueFull` without waiting."""
    gate, running, most, order = Concurrency(2, 3), 0, 0, []
    release = asyncio.Event()

    async def work(number: int) -> None:
        nonlocal running, most
        async with gate:
            running += 1
            most = max(most, running)
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
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 5 + [QueueFull] * 5
    assert most == 2
    assert order == [0, 1, 2, 3, 4]


async def test_who_leaves_the_queue_makes_room() -> None:
    """A waiting task that is cancelled no longer counts, and does not take a turn."""
    gate = Concurrency(1, 1)
    async with gate:
        waiting = asyncio.ensure_future(gate.__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await gate.__aenter__()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        second = asyncio.ensure_future(gate.__aenter__())
        await asyncio.sleep(0)
        assert not second.done()
    await second
    await gate.__aexit__(None, None, None)
    async with gate:
        pass


async def test_without_a_queue_nobody_waits() -> None:
    """A queue of 0 refuses whoever comes while all places are taken; an error inside frees the place."""
    gate = Concurrency(1, 0)

    async def fail() -> None:
        async with gate:
            with pytest.raises(QueueFull):
                await gate.__aenter__()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with gate:
        pass
