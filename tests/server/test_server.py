"""Twin of sidecar/server/server.py: raw sockets against a real site."""

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
    """Any answer."""
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
    """A handler with no boundary around it."""
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
    made = Site(app, Limits(header_timeout=0.5), drain=5)
    port = await made.listen("127.0.0.1", 0)
    yield made, port
    await made.close()


async def talk(port: int, sent: bytes) -> bytes:
    """Send raw bytes, and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "sent",
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
    site: tuple[Site, int], sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Unreadable requests are answered 400 in JSON, with no traceback here or there."""
    answer = await talk(site[1], sent)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    found = json.loads(body)
    assert found["detail"] == found["error"]["message"]
    assert "Traceback" not in capfd.readouterr().err


async def test_an_unknown_expectation_is_refused_in_json(site: tuple[Site, int]) -> None:
    """The library refuses it before any handler of ours: the client still reads `detail`."""
    answer = await talk(site[1], b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: gold\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 417")
    assert json.loads(body)["detail"] == "The request is not served: Expectation Failed."


async def test_long_header_fields_are_read(site: tuple[Site, int]) -> None:
    """Tokens of several kilobytes are ordinary in authorisation headers."""
    sent = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + b"a" * 20_000 + b"\r\n\r\n"
    assert (await talk(site[1], sent)).endswith(b"hello")


async def test_an_error_below_every_boundary_says_nothing_of_itself(
    site: tuple[Site, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Even with no boundary, neither the client nor the log learns the text of an exception."""
    answer = await talk(site[1], b"GET /broken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"secret text" not in answer
    assert "secret text" not in capfd.readouterr().err


async def test_headers_have_a_deadline(site: tuple[Site, int]) -> None:
    """A client that never finishes its headers is disconnected."""
    assert await talk(site[1], b"GET /hello HTTP/1.1\r\nHost:") == b""


async def test_closing_lets_requests_in_flight_end(site: tuple[Site, int]) -> None:
    """A request that has begun is answered although the site closes meanwhile."""
    made, port = site
    talking = asyncio.ensure_future(talk(port, b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    await asyncio.sleep(0.1)
    await made.close()
    assert (await talking).endswith(b"done")
    with pytest.raises(OSError, match=r"[Cc]onnect"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_whose_body_never_came_sees_the_end_at_once_and_may_still_send(site: tuple[Site, int]) -> None:
    """408 and the end of the stream without the lingering, which goes on: what is sent meanwhile is no reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    writer.write(b"POST /impatient HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    begun = time.monotonic()
    assert await reader.read() == b""
    assert time.monotonic() - begun < LINGER_SECONDS / 2
    assert head.startswith(b"HTTP/1.1 408")
    assert b"Connection: close" in head
    for _ in range(3):
        writer.write(b"1")
        await writer.drain()
        await asyncio.sleep(0.02)
    writer.close()
    await writer.wait_closed()


async def opened(port: int, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connections that say nothing."""
    return [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]


async def test_connections_beyond_the_bound_are_told_and_let_go() -> None:
    """Who is in is served; one more gets a 503 with Retry-After; when one leaves, the next is served."""
    app = web.Application()
    app.router.add_get("/hello", hello)
    made = Site(app, Limits(connections=16), drain=1)
    port = await made.listen("127.0.0.1", 0)
    held = await opened(port, 16)
    asked = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    head, _, body = (await talk(port, asked)).partition(b"\r\n\r\n")
    assert made.full
    assert head.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: 1" in head
    assert json.loads(body)["error"]["message"] == json.loads(body)["detail"]
    held[0][1].write(asked)
    assert (await held[0][0].read()).endswith(b"hello")
    assert (await talk(port, asked)).endswith(b"hello")
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    await made.close()


async def test_whoever_comes_beside_many_that_are_turned_away_is_cut() -> None:
    """CorsHeaders them is bounded too; those that say nothing are let go after a moment, and at the end."""
    made = Site(web.Application(), Limits(connections=16), drain=1)
    port = await made.listen("127.0.0.1", 0)
    held = await opened(port, 16 + MAX_REJECTING)
    assert await talk(port, b"") == b""
    async with asyncio.timeout(LINGER_SECONDS + 5):
        assert await held[16][0].read() == b""
    await made.close()
    for _, writer in held:
        writer.close()


@pytest.mark.parametrize("piece", [1_000, 100_000])
async def test_headers_are_bounded_together(site: tuple[Site, int], piece: int) -> None:
    """Each is small enough, and they never end: 431, whatever the pieces they come in."""
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 20_000) for number in range(20))
    sent = b"GET /hello HTTP/1.1\r\nHost: x\r\n" + fields
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    with contextlib.suppress(ConnectionError):
        for start in range(0, len(sent), piece):
            writer.write(sent[start : start + piece])
            await writer.drain()
            await asyncio.sleep(0)
    with contextlib.suppress(ConnectionError):
        assert (await reader.read()).startswith(b"HTTP/1.1 431")
    assert reader.at_eof() or reader.exception()
    writer.close()


async def test_a_body_is_no_header(site: tuple[Site, int]) -> None:
    """However long it is, and in however many pieces it comes; the next request on the connection is served too."""
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
    """Settings, then GOAWAY with HTTP_1_1_REQUIRED (13) and the reason, each as long as it says; then the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site[1])
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    sent = await reader.read()
    writer.close()
    assert sent[:9] == bytes.fromhex("000000 04 00 00000000")
    length, kind, error = int.from_bytes(sent[9:12]), sent[12], int.from_bytes(sent[22:26])
    assert (kind, error, len(sent)) == (7, 13, 9 + 9 + length)
    assert sent[26:].startswith(b"This port speaks HTTP/1.1")


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl on this machine")
async def test_http2_without_asking_is_refused_with_the_reason(site: tuple[Site, int]) -> None:
    """A real client learns why (13: HTTP_1_1_REQUIRED); one that asks first is served in HTTP/1.1."""
    url = f"http://127.0.0.1:{site[1]}/hello"
    found = [
        await asyncio.to_thread(subprocess.run, ["curl", "-sSv", option, url], capture_output=True, timeout=60)
        for option in ("--http2-prior-knowledge", "--http2")
    ]
    assert b"GOAWAY, error=13" in found[0].stderr
    assert found[0].returncode != 0
    assert found[1].returncode == 0
