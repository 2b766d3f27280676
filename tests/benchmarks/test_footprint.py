"""The footprint: steps of a start, each with what it takes."""

from __future__ import annotations

import contextlib

from benchmarks.footprint import resident, steps


async def test_the_steps_come_in_the_order_of_a_start() -> None:
    """Up to the policies; the rest takes seconds, and comes after them."""
    async with contextlib.aclosing(steps()) as taken:
        names = [await anext(taken) for _ in range(4)]
    assert names == ["Python and asyncio", "the program and its libraries", "a new store", "policies, read and checked"]
    assert resident() > 10
