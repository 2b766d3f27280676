"""Tests of timeouts and heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from sidecar.util.timeouts import with_heartbeat, with_timeout


async def test_a_coroutine_that_never_suspends_has_no_timeout() -> None:
    """Even with a timeout of 0 s the value is returned."""

    async def at_once() -> int:
        return 7

    assert await with_timeout(0.0, at_once()) == 7


async def test_results_reach_a_coroutine_that_suspends_repeatedly() -> None:
    """Each awaited result arrives where it is awaited."""

    async def slow() -> list[int]:
        loop = asyncio.get_running_loop()
        values = []
        for number in range(3):
            future = loop.create_future()
            loop.call_soon(future.set_result, number)
            values.append(await future)
            await asyncio.sleep(0)
        return values

    assert await with_timeout(5.0, slow()) == [0, 1, 2]


async def test_a_slow_coroutine_is_cancelled() -> None:
    """The coroutine is cancelled and can clean up."""
    cleaned = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(TimeoutError):
        await with_timeout(0.01, endless())
    assert cleaned == [True]


@pytest.mark.parametrize("pause", [False, True])
async def test_an_error_of_the_coroutine_is_raised(pause: bool) -> None:
    """Both before and after its first suspension."""

    async def broken() -> None:
        if pause:
            await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await with_timeout(5.0, broken())


async def test_an_error_of_an_awaitable_reaches_the_coroutine() -> None:
    """It can handle the error and continue."""

    async def brave() -> str:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(KeyError("gone"))
        try:
            await future
        except KeyError:
            await asyncio.sleep(0)
            return "went on"
        return "no error"

    assert await with_timeout(5.0, brave()) == "went on"


async def test_a_cancellation_from_outside_is_no_timeout() -> None:
    """A task cancelled while waiting raises `CancelledError`, not `TimeoutError`."""
    started = asyncio.Event()

    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(with_timeout(30.0, endless()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _slowly(*items: tuple[float, int]) -> AsyncGenerator[int]:
    for seconds, item in items:
        await asyncio.sleep(seconds)
        yield item


async def test_heartbeats_are_yielded_while_enabled() -> None:
    """One None per interval without an item, and no item is lost; disabled, there are no heartbeats."""
    items = [item async for item in with_heartbeat(_slowly((0, 1), (0.5, 2), (0, 3)), 0.1, lambda: True)]
    assert [item for item in items if item is not None] == [1, 2, 3]
    assert items[0] == 1
    assert items[1] is None
    assert [item async for item in with_heartbeat(_slowly((0.2, 1), (0.2, 2)), 0.01, lambda: False)] == [1, 2]


async def test_closing_early_cancels_the_pending_read() -> None:
    """The pending read is cancelled; errors of the source are raised in the consumer."""
    source = _slowly((0, 1), (60, 2))
    async with aclosing(with_heartbeat(source, 0.01, lambda: True)) as items:
        async for item in items:
            if item is None:
                break
    await source.aclose()

    async def breaks() -> AsyncGenerator[int]:
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        [item async for item in with_heartbeat(breaks(), 1.0, lambda: True)]
