"""Twin of sidecar/upstream/connection_pool.py: connections are kept, bounded, and left alone once they are doubtful."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from door import eventually
from support import free_port

from sidecar.upstream import connection_pool
from sidecar.upstream.connection_pool import NotConnected, Unreached, Wires


@asynccontextmanager
async def listener() -> AsyncIterator[tuple[int, list[asyncio.StreamWriter]]]:
    """A port, and who has connected to it."""
    seen: list[asyncio.StreamWriter] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()
        for writer in seen:
            writer.transport.abort()


async def test_one_that_was_given_back_is_taken_again() -> None:
    """Two that are out at once are two, and afterwards the last one given is the first one taken."""
    async with listener() as (port, seen):
        made = Wires("127.0.0.1", port, tls=None, most=2, patience=30.0)
        one, other = await made.take(), await made.take()
        assert one is not other
        made.give(one)
        made.give(other)
        assert await made.take() is other
        await eventually(lambda: len(seen) == 2)
        made.give(other)
        await made.close()
        assert not one.is_connected()


async def test_one_that_spoke_unasked_is_not_taken_again() -> None:
    """An answer that nobody asked for would be given to the next request."""
    async with listener() as (port, seen):
        made = Wires("127.0.0.1", port, tls=None, most=1, patience=30.0)
        first = await made.take()
        made.give(first)
        await eventually(lambda: len(seen) == 1)
        seen[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await eventually(lambda: first.should_close)
        second = await made.take()
        assert second is not first
        made.give(second)
        await made.close()


async def test_one_that_the_other_side_closed_is_not_taken_again() -> None:
    """A request on it would fail, and could not be repeated."""
    async with listener() as (port, seen):
        made = Wires("127.0.0.1", port, tls=None, most=1, patience=30.0)
        first = await made.take()
        made.give(first)
        await eventually(lambda: len(seen) == 1)
        seen[0].close()
        await eventually(lambda: not first.is_connected())
        second = await made.take()
        assert second is not first
        made.give(second)
        await made.close()


async def test_one_that_nobody_used_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the other side does, even if nobody asks for it again."""
    monkeypatch.setattr(connection_pool, "KEEPALIVE", 0.02)
    async with listener() as (port, _):
        made = Wires("127.0.0.1", port, tls=None, most=1, patience=30.0)
        first = await made.take()
        made.give(first)
        await eventually(lambda: not first.is_connected())
        await made.close()


async def test_beyond_the_most_one_waits_and_then_gives_up() -> None:
    """For as long as a connection may take; and whoever is waiting gets the next that is free."""
    async with listener() as (port, _):
        made = Wires("127.0.0.1", port, tls=None, most=1, patience=30.0)
        first = await made.take()
        made._patience = 0.01
        with pytest.raises(Unreached):
            await made.take()
        made._patience = 30.0
        waiting = asyncio.ensure_future(made.take())
        await asyncio.sleep(0)
        made.give(first)
        assert await waiting is first
        made.give(first)
        await made.close()


async def test_a_failure_leaves_its_place_to_the_next() -> None:
    """Nobody holds a connection that was never made."""
    made = Wires("127.0.0.1", free_port(), tls=None, most=1, patience=30.0)
    for _ in range(3):
        with pytest.raises(NotConnected, match="connection refused"):
            await made.take()
