"""Tests of the connection pool."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from inline_proxy import eventually
from support import free_port

from sidecar.upstream import connection_pool
from sidecar.upstream.connection_pool import ConnectError, ConnectionPool, ConnectTimeout
from sidecar.util import json, logs


@asynccontextmanager
async def listener() -> AsyncIterator[tuple[int, list[asyncio.StreamWriter]]]:
    """A port, and the connections it has accepted."""
    accepted: list[asyncio.StreamWriter] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], accepted
    finally:
        server.close()
        for writer in accepted:
            writer.transport.abort()


async def test_a_released_connection_is_reused() -> None:
    """Two acquired connections are distinct; the last one released is reused first."""
    async with listener() as (port, accepted):
        pool = ConnectionPool("127.0.0.1", port, tls=None, max_connections=2, timeout=30.0)
        first, second = await pool.acquire(), await pool.acquire()
        assert first is not second
        pool.release(first)
        pool.release(second)
        assert await pool.acquire() is second
        await eventually(lambda: len(accepted) == 2)
        pool.release(second)
        await pool.close()
        assert not first.is_connected()


async def test_a_connection_with_unexpected_data_is_not_reused() -> None:
    """An unsolicited response would be taken for that of the next request."""
    async with listener() as (port, accepted):
        pool = ConnectionPool("127.0.0.1", port, tls=None, max_connections=1, timeout=30.0)
        first = await pool.acquire()
        pool.release(first)
        await eventually(lambda: len(accepted) == 1)
        accepted[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await eventually(lambda: first.should_close)
        second = await pool.acquire()
        assert second is not first
        pool.release(second)
        await pool.close()


async def test_a_connection_closed_by_the_server_is_not_reused() -> None:
    """A request on it would fail and could not be repeated."""
    async with listener() as (port, accepted):
        pool = ConnectionPool("127.0.0.1", port, tls=None, max_connections=1, timeout=30.0)
        first = await pool.acquire()
        pool.release(first)
        await eventually(lambda: len(accepted) == 1)
        accepted[0].close()
        await eventually(lambda: not first.is_connected())
        second = await pool.acquire()
        assert second is not first
        pool.release(second)
        await pool.close()


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the server does, even if no further request is made."""
    monkeypatch.setattr(connection_pool, "KEEPALIVE", 0.02)
    async with listener() as (port, _):
        pool = ConnectionPool("127.0.0.1", port, tls=None, max_connections=1, timeout=30.0)
        first = await pool.acquire()
        pool.release(first)
        await eventually(lambda: not first.is_connected())
        await pool.close()


async def test_beyond_the_maximum_acquiring_waits_then_times_out() -> None:
    """A waiter gets the next connection that is released."""
    async with listener() as (port, _):
        pool = ConnectionPool("127.0.0.1", port, tls=None, max_connections=1, timeout=30.0)
        first = await pool.acquire()
        pool._timeout = 0.01
        with pytest.raises(ConnectTimeout):
            await pool.acquire()
        pool._timeout = 30.0
        waiter = asyncio.ensure_future(pool.acquire())
        await asyncio.sleep(0)
        pool.release(first)
        assert await waiter is first
        pool.release(first)
        await pool.close()


async def test_a_failed_connection_frees_its_slot() -> None:
    """Failed attempts do not use up the pool."""
    pool = ConnectionPool("127.0.0.1", free_port(), tls=None, max_connections=1, timeout=30.0)
    for _ in range(3):
        with pytest.raises(ConnectError, match="connection refused"):
            await pool.acquire()


async def test_an_upstream_that_is_away_is_logged_once_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    """Host, port and reason at the first failure, one line when it is back, nothing in between."""
    logs.configure("json", "info")
    port = free_port()
    pool = ConnectionPool("127.0.0.1", port, tls=None, max_connections=1, timeout=30.0)
    for _ in range(3):
        with pytest.raises(ConnectError):
            await pool.acquire()
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port)
    for _ in range(2):
        await pool.try_connect()
    server.close()
    await pool.close()
    output = capsys.readouterr()
    lines = [json.loads(line) for line in (output.out + output.err).splitlines()]
    assert [line["event"] for line in lines] == ["upstream_unreachable", "upstream_reached"]
    assert (lines[0]["host"], lines[0]["port"], lines[0]["reason"]) == ("127.0.0.1", port, "connection refused")


async def test_the_latest_attempt_to_connect_is_the_health() -> None:
    """Nothing is tried while nothing failed; after a failure a probe finds the upstream again."""
    port = free_port()
    pool = ConnectionPool("127.0.0.1", port, tls=None, max_connections=1, timeout=30.0)
    await pool.probe()
    assert pool.problem is None
    with pytest.raises(ConnectError):
        await pool.acquire()
    assert pool.problem == "connection refused"
    await pool.probe()
    assert pool.problem == "connection refused"
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port)
    await pool.probe()
    assert pool.problem is None
    server.close()
    await pool.close()


async def test_an_upstream_that_accepts_nothing_in_time_is_a_problem_a_client_that_leaves_is_none() -> None:
    """A TLS handshake that is never answered: a cancelled request says nothing, a timeout does."""
    async with listener() as (port, _):
        pool = ConnectionPool("127.0.0.1", port, tls=ssl.create_default_context(), max_connections=1, timeout=60.0)
        leaving = asyncio.ensure_future(pool.acquire())
        await asyncio.sleep(0.1)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert pool.problem is None
        impatient = ConnectionPool("127.0.0.1", port, tls=pool.tls, max_connections=1, timeout=0.2)
        with pytest.raises(ConnectTimeout):
            await impatient.acquire()
        assert impatient.problem == "no connection in time"
