"""Twin of sidecar/limits/memory_budget.py."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from sidecar.limits import NoRoom, Room
from sidecar.limits.memory_budget import MOST_WAITING


async def test_a_body_holds_at_most_as_much_as_is_then_left() -> None:
    """Alone half of all; with n that take all they can get, each has a share of 1/(n+1), and so much is left."""
    room = Room(1000)
    with room.lease() as first, room.lease() as second:
        await first.hold(500)
        await second.hold(250)
        assert room.fits(125, 125)
        assert not room.fits(126, 126)
        second.shrink(300)
        assert room.held == 750
        second.shrink(100)
        assert room.held == 600
    assert room.held == 0


async def test_what_never_fits_is_told_at_once() -> None:
    """Nobody waits for what cannot come; what was held is held still."""
    room = Room(1000)
    with room.lease() as lease:
        await lease.hold(10)
        async with asyncio.timeout(0.5):
            with pytest.raises(NoRoom):
                await lease.hold(501)
        assert (lease.size, room.held) == (10, 10)


async def test_who_waits_goes_on_when_room_is_made() -> None:
    """All who wait look again, whenever anybody gives back something."""
    room = Room(1000)
    with room.lease() as large, room.lease() as one, room.lease() as other:
        await large.hold(500)
        await one.hold(250)
        waiting = asyncio.ensure_future(other.hold(200))
        await asyncio.sleep(0)
        assert not waiting.done()
        large.shrink(0)
        await waiting
        assert room.held == 450


async def test_who_gets_no_room_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `PATIENCE`; and nothing of the wait remains."""
    monkeypatch.setattr("sidecar.limits.memory_budget.PATIENCE", 0.05)
    room = Room(1000)
    with room.lease() as large, room.lease() as small:
        await large.hold(500)
        with pytest.raises(NoRoom):
            await small.hold(251)
        await small.hold(250)


async def test_only_so_many_may_wait() -> None:
    """What waits takes memory too, so whoever comes beside many is told at once."""
    room = Room(1000)
    with ExitStack() as stack:
        leases = [stack.enter_context(room.lease()) for _ in range(MOST_WAITING + 2)]
        await leases[0].hold(500)
        waiting = [asyncio.ensure_future(lease.hold(300)) for lease in leases[1:-1]]
        await asyncio.sleep(0)
        async with asyncio.timeout(0.5):
            with pytest.raises(NoRoom):
                await leases[-1].hold(300)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await leases[-1].hold(250)


async def test_the_size_of_the_room_may_change() -> None:
    """What is held stays held; what comes then finds the new room."""
    room = Room(1000)
    with room.lease() as lease:
        await lease.hold(400)
        room.total = 600
        assert not room.fits(201, 201)
        room.total = 4000
        await lease.hold(2000)


class Untold(Room):
    """One in which there is no memory to tell anybody what is held."""

    def tell(self) -> None:
        """Fail."""
        raise MemoryError


async def test_nothing_is_lost_where_telling_of_it_fails() -> None:
    """What a body held is given back, once."""
    room = Untold(1000)
    with pytest.raises(MemoryError), room.lease() as lease:
        await lease.hold(10)
    assert (lease.size, room.held) == (0, 0)
