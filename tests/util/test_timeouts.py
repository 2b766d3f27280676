"""Twin of sidecar/util/timeouts.py: a bound that works, is passed on, and sets no timer where nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from sidecar.util.timeouts import paused, within


async def test_what_does_not_wait_is_not_timed() -> None:
    """Even without any time the value comes: nothing was waited for."""

    async def at_once() -> int:
        return 7

    assert await within(0.0, at_once()) == 7


async def test_what_waits_several_times_gets_its_values() -> None:
    """Each thing that is waited for arrives where it is wanted."""

    async def slow() -> list[int]:
        loop = asyncio.get_running_loop()
        found = []
        for number in range(3):
            future = loop.create_future()
            loop.call_soon(future.set_result, number)
            found.append(await future)
            await asyncio.sleep(0)
        return found

    assert await within(5.0, slow()) == [0, 1, 2]


async def test_what_takes_too_long_is_ended() -> None:
    """The work is cancelled, and can clean up."""
    cleaned = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(TimeoutError):
        await within(0.01, endless())
    assert cleaned == [True]


@pytest.mark.parametrize("pause", [False, True])
async def test_an_error_of_the_work_is_its_own(pause: bool) -> None:
    """Before and after the first wait."""

    async def broken() -> None:
        if pause:
            await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await within(5.0, broken())


async def test_an_error_of_what_is_waited_for_reaches_the_work() -> None:
    """It may handle it and go on."""

    async def brave() -> str:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(KeyError("gone"))
        try:
            await future
        except KeyError:
            await asyncio.sleep(0)
            return "went on"
        return "no error"

    assert await within(5.0, brave()) == "went on"


async def test_a_cancellation_from_outside_is_no_timeout() -> None:
    """Whoever is cancelled while waiting sees just that."""
    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(within(30.0, endless()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _slowly(*items: tuple[float, int]) -> AsyncGenerator[int]:
    for seconds, item in items:
        await asyncio.sleep(seconds)
        yield item


async def test_a_pause_is_told_where_somebody_minds() -> None:
    """As often as the time is over, and nothing is lost by it; where nobody minds there is no word of it."""
    found = [item async for item in paused(_slowly((0, 1), (0.5, 2), (0, 3)), 0.1, lambda: True)]
    assert [item for item in found if item is not None] == [1, 2, 3]
    assert found[0] == 1
    assert found[1] is None
    assert [item async for item in paused(_slowly((0.2, 1), (0.2, 2)), 0.01, lambda: False)] == [1, 2]


async def test_who_leaves_while_something_is_to_come_leaves_nothing_behind() -> None:
    """The item that was waited for is given up, and errors of the source are the reader's."""
    source = _slowly((0, 1), (60, 2))
    async with aclosing(paused(source, 0.01, lambda: True)) as items:
        async for item in items:
            if item is None:
                break
    await source.aclose()

    async def breaks() -> AsyncGenerator[int]:
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        [item async for item in paused(breaks(), 1.0, lambda: True)]
