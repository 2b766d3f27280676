"""Tests `sidecar.server.server` with raw sockets against a real site."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from sidecar.config import Limits
from sidecar.server.server import FIELD_BYTES, LINGER_SECONDS, MAX_REJECTING, Site


async def hello(_request: web.Request) -> web.Response:
    """A handler with a short response."""
    return web.Response(text="hello")


async def length(request: web.Request) -> web.Response:
    """A handler that reads the body."""
    return web.Response(text=str(len(await request.read())))


async def impatient(request: web.Request) -> web.Response:
    """A handler that gives up waiting for the body."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await request.read()
    return web.Response(status=408)


async def broken(_request: web.Request) -> web.Response:
    """A handler without an error boundary."""
    raise RuntimeError("secret text")


async def slow(_request: web.Request) -> web.Response:
    """A handler that takes a while."""
    await asyncio.sleep(0.3)
    return web.Response(text="done")


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, int]]:
    """A site on a free port, with short deadlines."""
    app = web.Application(client_max_size=2**20)
    app.router.add_post("/length", length)
    app.router.add_post("/impatient", impatient)
    app.router.add_get("/hello", hello)
    app.router.add_get("/broken", broken)
    app.router.add_get("/slow", slow)
    running = Site(app, Limits(header_timeout=0.5), drain=5)
    port = await running.listen("127.0.0.1", 0)
    yield running, port
    await running.close()


async def talk(port: int, data: bytes) -> bytes:
    """Send raw bytes, and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /hello HTTP/9.9x\r\n\r\n",
        b"GET /hello HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /hello HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (FIELD_BYTES + 10) + b"\r\n\r\n",
    ],
    ids=["nonsense", "version", "header", "negative-length", "two-lengths", "large-field"],
)
async def test_what_is_not_http_gets_a_json_error_in_both_dialects(
    site: tuple[Site, int], data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Unparsable requests get a 400 (431 if too large) in JSON, without a traceback in response or log."""
    answer = await talk(site[1], data)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == (b"431" if len(data) > FIELD_BYTES else b"400")
    document = json.loads(body)
    assert document["detail"] == document["error"]["message"]
    assert "Traceback" not in capfd.readouterr().err


async def test_an_unknown_expectation_is_refused_in_json(site: tuple[Site, int]) -> None:
    """An `Expect` refused by aiohttp before any handler is still answered with `detail`."""
    answer = await talk(site[1], b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: gold\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 417")
    assert json.loads(body)["detail"] == "The request is not served: Expectation Failed."


async def test_long_header_fields_are_read(site: tuple[Site, int]) -> None:
    """Tokens of several kilobytes are common in authorization headers."""
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + b"a" * 20_000 + b"\r\n\r\n"
    assert (await talk(site[1], request)).endswith(b"hello")


async def test_an_error_below_every_boundary_says_nothing_of_itself(
    site: tuple[Site, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Even without an error boundary, the message of an exception reaches neither client nor log."""
    answer = await talk(site[1], b"GET /broken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"secret text" not in answer
    assert "secret text" not in capfd.readouterr().err


async def test_headers_have_a_deadline(site: tuple[Site, int]) -> None:
    """A client that never finishes its headers is disconnected."""
    assert await talk(site[1], b"GET /hello HTTP/1.1\r\nHost:") == b""


async def test_closing_lets_requests_in_flight_end(site: tuple[Site, int]) -> None:
    """A running request is answered even if the site closes in the meantime."""
    running, port = site
    talking = asyncio.ensure_future(talk(port, b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    await asyncio.sleep(0.1)
    await running.close()
    assert (await talking).endswith(b"done")
    with pytest.raises(OSError, match=r"[Cc]onnect"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_whose_body_never_came_sees_the_end_at_once_and_may_still_send(site: tuple[Site, int]) -> None:
    """A 408 and the end of the stream arrive at once; data sent while the server lingers causes no reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    writer.write(b"POST /impatient HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    started = time.monotonic()
    assert await reader.read() == b""
    assert time.monotonic() - started < LINGER_SECONDS / 2
    assert head.startswith(b"HTTP/1.1 408")
    assert b"Connection: close" in head
    for _ in range(3):
        writer.write(b"1")
        await writer.drain()
        await asyncio.sleep(0.02)
    writer.close()
    await writer.wait_closed()


async def opened(port: int, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Idle connections."""
    return [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]


async def test_connections_beyond_the_bound_are_told_and_let_go() -> None:
    """A connection beyond the limit gets a 503 with Retry-After; once another closes, the next is served."""
    app = web.Application()
    app.router.add_get("/hello", hello)
    full_site = Site(app, Limits(connections=16), drain=1)
    port = await full_site.listen("127.0.0.1", 0)
    connections = await opened(port, 16)
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    head, _, body = (await talk(port, request)).partition(b"\r\n\r\n")
    assert full_site.full
    assert head.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: 1" in head
    assert json.loads(body)["error"]["message"] == json.loads(body)["detail"]
    connections[0][1].write(request)
    assert (await connections[0][0].read()).endswith(b"hello")
    assert (await talk(port, request)).endswith(b"hello")
    for _, writer in connections:
        writer.close()
        await writer.wait_closed()
    await full_site.close()


async def test_whoever_comes_beside_many_that_are_turned_away_is_cut() -> None:
    """Connections beyond those being rejected are reset; idle rejected ones are closed after a moment or on close."""
    full_site = Site(web.Application(), Limits(connections=16), drain=1)
    port = await full_site.listen("127.0.0.1", 0)
    connections = await opened(port, 16 + MAX_REJECTING)
    assert await talk(port, b"") == b""
    async with asyncio.timeout(LINGER_SECONDS + 5):
        assert await connections[16][0].read() == b""
    await full_site.close()
    for _, writer in connections:
        writer.close()


@pytest.mark.parametrize("piece", [1_000, 100_000])
async def test_headers_are_bounded_together(site: tuple[Site, int], piece: int) -> None:
    """Endless small header fields get a 431, in pieces of any size."""
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 20_000) for number in range(20))
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\n" + fields
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    with contextlib.suppress(ConnectionError):
        for start in range(0, len(request), piece):
            writer.write(request[start : start + piece])
            await writer.drain()
            await asyncio.sleep(0)
    with contextlib.suppress(ConnectionError):
        assert (await reader.read()).startswith(b"HTTP/1.1 431")
    assert reader.at_eof() or reader.exception()
    writer.close()


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([(100, 100)], 200),
        ([(4, 15_000)], 200),
        ([(4, 20_000)], 431),
        ([(3, 30_000)], 431),
        ([(100, 1_000)], 431),
        ([(1, 33_000)], 431),
        ([(1, 31_000)], 200),
        ([(500, 1)], 431),
    ],
)
async def test_the_documented_bounds_hold_however_the_bytes_arrive(
    site: tuple[Site, int], fields: list[tuple[int, int]], status: int
) -> None:
    """64 KiB together, 32 KiB each, 128 fields, also in a single write; the answer does not name the library."""
    lines = b"".join(b"X-%d: %s\r\n" % (index, b"a" * size) for number, size in fields for index in range(number))
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + lines + b"\r\n")
    answer = await reader.read()
    assert int(answer.split()[1]) == status
    assert status == 200 or b"aiohttp" not in answer
    writer.close()


async def test_a_body_is_no_header(site: tuple[Site, int]) -> None:
    """A long body in many pieces does not count as headers, and the next request is served."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    writer.write(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n")
    for _ in range(50):
        writer.write(b"a" * 10_000)
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answers = await reader.read()
    assert b"500000" in answers
    assert answers.endswith(b"hello")
    writer.close()


async def test_http2_without_asking_gets_the_frames_that_say_so(site: tuple[Site, int]) -> None:
    """The response is SETTINGS, then GOAWAY with HTTP_1_1_REQUIRED (13) and the reason, with correct frame lengths."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    frames = await reader.read()
    writer.close()
    assert frames[:9] == bytes.fromhex("000000 04 00 00000000")
    length, kind, error = int.from_bytes(frames[9:12]), frames[12], int.from_bytes(frames[22:26])
    assert (kind, error, len(frames)) == (7, 13, 9 + 9 + length)
    assert frames[26:].startswith(b"This port speaks HTTP/1.1")


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl on this machine")
async def test_http2_without_asking_is_refused_with_the_reason(site: tuple[Site, int]) -> None:
    """A real client gets the reason (13: HTTP_1_1_REQUIRED); one that requests an upgrade is served in HTTP/1.1."""
    url = f"http://127.0.0.1:{site[1]}/hello"
    results = [
        await asyncio.to_thread(subprocess.run, ["curl", "-sSv", option, url], capture_output=True, timeout=60)
        for option in ("--http2-prior-knowledge", "--http2")
    ]
    assert b"GOAWAY, error=13" in results[0].stderr
    assert results[0].returncode != 0
    assert results[1].returncode == 0
