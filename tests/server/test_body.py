"""Tests `sidecar.server.body`."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass

import orjson
import pytest
from aiohttp import ClientSession, web

from sidecar.config import Limits
from sidecar.errors import BodyError
from sidecar.limits import MemoryBudget, OverBudget, Reservation
from sidecar.server.body import RESERVATION, decode_body, read_body
from sidecar.server.server import Site

LIMITS = Limits(body_bytes=1000, body_timeout=0.3, body_rate=100)
JSON = "application/json"
BUDGET = web.AppKey("room", MemoryBudget)


async def echo(request: web.Request) -> web.Response:
    """Respond with the body, decoded if the path is `/unpack`, or with the error's status and text."""
    budget = request.app[BUDGET]
    try:
        with budget.reserve() as reservation:
            request[RESERVATION] = reservation
            raw = await read_body(request, LIMITS)
            body = (
                raw if request.path == "/" else await decode_body(request, raw, request.headers["Content-Type"], LIMITS)
            )
            return web.Response(body=body, headers={"x-held": str(reservation.size)})
    except BodyError as error:
        return web.Response(status=error.status, text=f"{error.kind}: {error.detail}")
    except OverBudget as error:
        return web.Response(status=503, text=str(error))


@dataclass(frozen=True)
class Server:
    """A real server that reads bodies."""

    port: int
    budget: MemoryBudget

    def url(self, path: str = "/") -> str:
        """The URL for a POST."""
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with a memory budget of 40,000 bytes."""
    app = web.Application()
    app[BUDGET] = MemoryBudget(40_000)
    app.router.add_post("/", echo)
    app.router.add_post("/unpack", echo)
    site = Site(app, Limits(), drain=1)
    yield Server(await site.listen("127.0.0.1", 0), app[BUDGET])
    await site.close()


async def pieces(*parts: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    """A body in chunks."""
    for part in parts:
        yield part
        await asyncio.sleep(pause)


async def test_a_body_is_read_whole_whatever_its_framing(server: Server) -> None:
    """The body is the same with a content length or in chunks."""
    async with ClientSession() as session:
        for data in (b"abc" * 100, pieces(b"abc" * 50, b"abc" * 50)):
            async with session.post(server.url(), data=data) as answer:
                assert await answer.read() == b"abc" * 100


async def test_a_body_over_the_limit_is_refused_with_the_number(server: Server) -> None:
    """By its declared length before reading, or in chunks as soon as the limit is exceeded."""
    async with ClientSession() as session:
        for data in (b"a" * 1001, pieces(b"a" * 600, b"a" * 600)):
            async with session.post(server.url(), data=data) as answer:
                assert (answer.status, "1000 bytes" in await answer.text()) == (413, True)


async def test_a_body_that_drips_is_given_up(server: Server) -> None:
    """The deadline holds for the whole body, not per chunk; its reservation is released."""
    async with ClientSession() as session:
        slow = pieces(*[b"a"] * 20, pause=0.05)
        async with session.post(server.url(), data=slow) as answer:
            assert (answer.status, "0.3 s" in await answer.text()) == (408, True)
    assert server.budget.reserved == 0


async def test_a_slow_body_that_comes_on_is_taken(server: Server) -> None:
    """A body that takes longer than the timeout is accepted, because each chunk extends the deadline by a second."""
    async with ClientSession() as session:
        body = pieces(*[b"a" * 100] * 5, pause=0.1)
        async with session.post(server.url(), data=body) as answer:
            assert await answer.read() == b"a" * 500


async def test_room_is_held_for_what_has_arrived_not_for_what_was_announced(server: Server) -> None:
    """Only received bytes are reserved, not the announced content length."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + b"a" * 100)
    async with asyncio.timeout(5):
        while server.budget.reserved == 0:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    assert server.budget.reserved == 200
    writer.close()
    await writer.wait_closed()


async def test_reading_a_body_takes_room_for_its_values(server: Server) -> None:
    """Parsing reserves memory for values as well: a short body of many values takes many times its size."""
    async with ClientSession(headers={"Content-Type": JSON}) as session:
        async with session.post(server.url("/unpack"), data=b'"' + b"a" * 400 + b'"') as plain:
            assert plain.status == 200
        async with session.post(server.url("/unpack"), data=b"[" + b"[]," * 132 + b"[]]") as dense:
            assert dense.status == 413
            assert "limits.bodies" in await dense.text()
        assert int(plain.headers["x-held"]) == 5 * 402


async def test_a_packed_body_takes_room_for_what_is_in_it(server: Server) -> None:
    """The maximum decompressed size is reserved before decompression, then the actual size."""
    text = orjson.dumps("word " * 150)
    async with ClientSession(headers={"Content-Type": JSON, "Content-Encoding": "gzip"}) as session:
        async with session.post(server.url("/unpack"), data=gzip.compress(text)) as answer:
            assert await answer.read() == text
            assert 3000 < int(answer.headers["x-held"]) < 4000
        async with session.post(server.url("/unpack"), data=gzip.compress(b"a" * 5000)) as answer:
            assert answer.status == 413


async def test_without_room_a_body_is_not_taken(server: Server) -> None:
    """Without free budget a body is refused within the waiting time, and accepted once there is free budget."""
    budget = server.budget
    reservations = await asyncio.gather(*(_take(budget, share) for share in (20_000, 10_000, 5_000, 2_500, 1_250)))
    async with ClientSession() as session:
        async with session.post(server.url(), data=b"a" * 900) as answer:
            assert answer.status == 503
        async with session.post(server.url(), data=b"a" * 300) as answer:
            assert answer.status == 200
        reservations[0].shrink(0)
        async with session.post(server.url(), data=b"a" * 900) as answer:
            assert answer.status == 200


async def _take(budget: MemoryBudget, size: int) -> Reservation:
    reservation = budget.reserve()
    await reservation.resize(size)
    return reservation
