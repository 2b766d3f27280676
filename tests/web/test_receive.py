"""Twin of sidecar/web/receive.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidecar.config import Limits
from sidecar.errors import BodyError
from sidecar.web.receive import receive

LIMITS = Limits(body_bytes=1000, body_timeout=0.3)


async def echo(request: web.Request) -> web.Response:
    """Answers with the body, or with the error's status and text."""
    try:
        return web.Response(body=await receive(request, LIMITS))
    except BodyError as error:
        return web.Response(status=error.status, text=f"{error.kind}: {error.detail}")


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """A real server that receives."""
    app = web.Application()
    app.router.add_post("/", echo)
    async with TestServer(app) as made:
        yield made


async def pieces(*parts: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    """A body in chunks."""
    for part in parts:
        yield part
        await asyncio.sleep(pause)


async def test_a_body_is_read_whole_whatever_its_framing(server: TestServer) -> None:
    """With a length or in chunks, the bytes are the same."""
    async with ClientSession() as session:
        for data in (b"abc" * 100, pieces(b"abc" * 50, b"abc" * 50)):
            async with session.post(server.make_url("/"), data=data) as answer:
                assert await answer.read() == b"abc" * 100


async def test_a_body_over_the_limit_is_refused_with_the_number(server: TestServer) -> None:
    """By its declared length before reading, in chunks as soon as it is over."""
    async with ClientSession() as session:
        for data in (b"a" * 1001, pieces(b"a" * 600, b"a" * 600)):
            async with session.post(server.make_url("/"), data=data) as answer:
                assert (answer.status, "1000 bytes" in await answer.text()) == (413, True)


async def test_a_body_that_drips_is_given_up(server: TestServer) -> None:
    """The deadline is for the whole body, not for each piece."""
    async with ClientSession() as session:
        slow = pieces(*[b"a"] * 20, pause=0.05)
        async with session.post(server.make_url("/"), data=slow) as answer:
            assert (answer.status, "0.3 s" in await answer.text()) == (408, True)
