"""The footprint: steps of a start with memory and time."""

from __future__ import annotations

import contextlib

from benchmarks.footprint import resident, steps


async def test_the_steps_come_in_the_order_of_a_start() -> None:
    """The steps come in order up to the policies; later ones take seconds and are not run here."""
    async with contextlib.aclosing(steps()) as taken:
        names = [await anext(taken) for _ in range(4)]
    assert names == ["Python and asyncio", "the program and its libraries", "a new store", "policies, read and checked"]
    assert resident() > 10
