"""Work on the event loop, turn by turn."""

from __future__ import annotations

import asyncio
import time

import pytest

from sidecar.layers.turn import MOST, Turn


async def test_others_have_their_turn_between_long_work() -> None:
    """Who comes when a turn is spent waits for the next, and whoever else is ready is served before."""
    turn, order = Turn(), list[str]()

    async def work(name: str) -> None:
        async with turn:
            order.append(name)
            time.sleep(2 * MOST)  # noqa: ASYNC251 - holding the loop is what is tested

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work(name))
        asyncio.get_running_loop().call_soon(order.append, "served")
    assert order == ["a", "served", "b", "c"]


async def test_short_work_shares_a_turn() -> None:
    """Nobody waits while there is time left."""
    turn, order = Turn(), list[str]()

    async def work(name: str) -> None:
        async with turn:
            order.append(name)

    await asyncio.gather(*(work(name) for name in "abc"), asyncio.sleep(0, order.append("first")))
    assert order == ["first", "a", "b", "c"]


async def test_work_that_fails_counts_too() -> None:
    """The time is gone, and the next turn comes."""
    turn = Turn()

    async def fail() -> None:
        async with turn:
            time.sleep(2 * MOST)  # noqa: ASYNC251 - as above
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        await fail()
    begun = time.perf_counter()
    async with turn:
        assert time.perf_counter() - begun < 10
