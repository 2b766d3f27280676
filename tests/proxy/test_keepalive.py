"""Twin of sidecar/proxy/keepalive.py: keepalives between events, and nowhere else."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from aiohttp import web
from inline_proxy import CHAT, eventually, post, run_proxy
from recording import Received, head, recording, stream

from sidecar.protocols import PROTOCOLS
from sidecar.proxy.keepalive import Keepalive
from sidecar.response_scan.sse import EVENT_BYTES

STREAM = CHAT | {"stream": True, "max_tokens": 9}
EVENT = b'data: {"n": 1}\n\n'
SETTINGS: Any = {"upstream": {"idle_timeout": 60.0}, "answers": {"keepalive": 0.1}}

COMMENT, PING = PROTOCOLS["openai"].keepalive, PROTOCOLS["anthropic"].keepalive


async def silent(sent: bytes, path: str, settings: Any = SETTINGS, *, size: int = 0) -> bytes:
    """The bytes that a client reads from an upstream that falls silent.

    Reads up to the second keepalive; or with `size`, that many bytes and what follows within half a second.
    """

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "text/event-stream", "Transfer-Encoding: chunked"))
        if sent:
            writer.write(f"{len(sent):x}\r\n".encode() + sent + b"\r\n")
        await asyncio.sleep(60)

    received = b""
    async with recording(script) as upstream, run_proxy(upstream.url, **settings) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(STREAM, path))
        async with asyncio.timeout(60):
            while len(received) < size if size else received.count(COMMENT) + received.count(PING) < 2:
                received += await reader.read(2**16)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while size:
                    received += await reader.read(2**16)
        writer.close()
        await writer.wait_closed()
    return received


@pytest.mark.parametrize(("path", "sign"), [("/v1/chat/completions", COMMENT), ("/v1/messages", PING)])
@pytest.mark.parametrize("sent", [EVENT, b"", b": upstream's own\r\n\r\n"])
@pytest.mark.parametrize("responses", ["off", "block"])
async def test_a_silent_stream_gets_keepalives(path: str, sign: bytes, sent: bytes, responses: str) -> None:
    """Repeatedly, after complete events or before the first."""
    received = await silent(sent, path, SETTINGS | {"responses": responses})
    framed = f"{len(sign):x}\r\n".encode() + sign + b"\r\n"
    assert received.endswith(framed + framed)


async def test_no_event_is_cut_in_two() -> None:
    """No keepalive is written in the middle of an event."""
    half = b"data: " + b"a" * 2**21  # passes in pieces, since nothing looks at it
    received = await silent(half, "/v1/chat/completions", size=EVENT_BYTES)
    assert COMMENT not in received


@pytest.mark.parametrize("answers", [{"keepalive": None}, {"keepalive": 15.0}])
async def test_a_stream_that_is_not_silent_passes_unchanged(answers: dict[str, float | None]) -> None:
    """Nothing is added to it, with or without the setting."""
    async with (
        recording(stream([EVENT] * 5, pause=0.05)) as upstream,
        run_proxy(upstream.url, answers=answers) as endpoint,
    ):
        received = await endpoint.talk(post(STREAM))
    assert b"keepalive" not in received
    assert received.count(EVENT) == 5


async def test_a_client_that_takes_its_time_gets_no_sign_within_an_event() -> None:
    """While a chunk is being written the stream is not silent, however long that takes."""

    class Slow(web.StreamResponse):
        written: ClassVar[list[bytes]] = []

        async def write(self, data: object) -> None:
            self.written.append(bytes(data))  # type: ignore[call-overload]

    with Keepalive(Slow(), "openai", 0.02) as alive:
        await asyncio.sleep(0.1)
        signs = len(Slow.written)
        alive.begin_write()
        await asyncio.sleep(0.1)
        assert len(Slow.written) == signs > 0
        alive.end_write(b"data: 1\n\n")
        await eventually(lambda: len(Slow.written) > signs)
