"""Framing over raw sockets: each request is scanned separately, and no unscanned bytes are forwarded with it."""

from __future__ import annotations

import asyncio
import gzip
import json
import re

import pytest
from hostile import chunked
from inline_proxy import CHAT, EVIL, InlineProxy, run_proxy
from recording import Received, Recording, head, recording, respond

BENIGN = json.dumps(CHAT).encode()
ATTACK = json.dumps(EVIL).encode()
TE = "Transfer-Encoding: chunked"


def post(
    body: bytes, *fields: str, line: str = "POST /v1/chat/completions HTTP/1.1", length: int | None = None
) -> bytes:
    """One request on a keep-alive connection; `length` -1 omits Content-Length."""
    valid_key = len(body) if length is None else length
    size = [f"Content-Length: {valid_key}"] if TE not in fields and valid_key >= 0 else []
    head = [line, "Host: x", "Content-Type: application/json", *size, *fields, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


async def talk(endpoint: InlineProxy, *requests: bytes) -> list[int]:
    """The statuses of what a connection answers on which these are sent in one go; interim ones too."""
    last = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    actual = await endpoint.talk(b"".join(requests) + last)
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", actual)]


def bodies(upstream: Recording) -> list[bytes]:
    """The forwarded bytes before the last request of each connection."""
    return [received.body for received in upstream.requests if received.body]


async def test_requests_in_a_row_are_scanned_one_by_one() -> None:
    """Pipelined: refused ones are not forwarded, and the others are, byte for byte."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        statuses = await talk(endpoint, post(BENIGN), post(ATTACK), post(BENIGN), post(ATTACK))
    assert statuses == [200, 400, 200, 400, 200]
    assert bodies(upstream) == [BENIGN, BENIGN]


async def test_what_follows_a_body_is_a_request_of_its_own() -> None:
    """And not part of the one before: Content-Length is binding."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        statuses = await talk(endpoint, post(BENIGN + post(ATTACK), length=len(BENIGN)))
    assert statuses == [200, 400, 200]
    assert bodies(upstream) == [BENIGN]


@pytest.mark.parametrize(
    "sent",
    [
        post(chunked(BENIGN, 9, b";note=EVIL"), TE),
        post(chunked(BENIGN)[:-2] + b"X-Note: EVIL\r\n\r\n", TE),
        post(chunked(BENIGN)[:-2] + b"Content-Length: 5\r\nX-Note: EVIL\r\n\r\n", TE, "Trailer: X-Note"),
    ],
    ids=["extension", "trailer", "announced trailer"],
)
async def test_chunk_extensions_and_trailers_are_not_forwarded(sent: bytes) -> None:
    """Chunk extensions and trailers are neither body nor headers of the next request."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        actual = await endpoint.talk(sent + post(BENIGN, "X-Mine: 1"))
    statuses = re.findall(rb"HTTP/1\.[01] (\d{3}) ", actual)
    assert (statuses, bodies(upstream)) in (([b"200"], [BENIGN]), ([b"400"], []))
    assert statuses == [b"400"] or b"\r\nConnection: close\r\n" in actual
    assert not any(b"EVIL" in received.head + received.body for received in upstream.requests)


async def test_a_coding_below_the_chunks_is_not_undone_by_anybody() -> None:
    """The body is scanned and forwarded as sent; the contradicting header is not forwarded."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        for body in (BENIGN, ATTACK, gzip.compress(ATTACK)):
            await endpoint.talk(post(chunked(body), "Transfer-Encoding: gzip, chunked", "Connection: close", length=-1))
    assert bodies(upstream) in ([], [BENIGN])
    assert all(received.header("transfer-encoding") is None for received in upstream.requests)


@pytest.mark.parametrize("coding", ["chunked, chunked", "identity", "chunked;q=1", "xchunked", "\x0bchunked"])
async def test_another_transfer_coding_is_refused(coding: str) -> None:
    """Two servers could read different bodies."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        actual = await endpoint.talk(
            post(chunked(BENIGN), f"Transfer-Encoding: {coding}", "Connection: close", length=0)
        )
    assert re.findall(rb"HTTP/1\.[01] (\d{3}) ", actual)[0] == b"400"
    assert upstream.requests == []


async def test_a_client_that_waits_for_leave_is_scanned_all_the_same() -> None:
    """`Expect: 100-continue` gets its interim response and is not forwarded."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        statuses = await talk(endpoint, post(BENIGN, "Expect: 100-continue"), post(ATTACK, "Expect: 100-continue"))
    assert statuses == [100, 200, 100, 400, 200]
    assert bodies(upstream) == [BENIGN]
    assert upstream.requests[0].header("expect") is None


async def test_who_would_rather_speak_http2_is_served_in_http1() -> None:
    """`Upgrade: h2c`, which Java's client sends by default: the body is scanned and forwarded."""
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        whole_or_not = [(BENIGN, ()), (chunked(BENIGN), (TE,)), (ATTACK, ()), (chunked(ATTACK), (TE,))]
        actual = [await endpoint.talk(post(body, *upgrade, *extra), until=b"}") for body, extra in whole_or_not]
    assert [answer.split(b" ")[1] for answer in actual] == [b"200", b"200", b"400", b"400"]
    assert bodies(upstream) == [BENIGN, BENIGN]
    assert not any(b"h2c" in received.head or b"HTTP2" in received.head for received in upstream.requests)


@pytest.mark.parametrize("target", ["http://other.example/v1/chat/completions", "//other.example/v1/chat/completions"])
async def test_no_target_leads_to_another_host(target: str) -> None:
    """The upstream is the configured one or none."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        statuses = await talk(endpoint, post(BENIGN, line=f"POST {target} HTTP/1.1"))
    assert statuses[0] in {200, 400}
    assert all(received.target == "/v1/chat/completions" for received in upstream.requests if received.body)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_method_without_a_body_has_none(method: str, framing: str) -> None:
    """On every route, and in either framing."""
    line = f"{method} /v1/chat/completions HTTP/1.1"
    sent = post(BENIGN, line=line) if framing == "length" else post(chunked(BENIGN), TE, line=line)
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        statuses = await talk(endpoint, sent)
    assert statuses[0] == 400
    assert bodies(upstream) == []


@pytest.mark.parametrize(
    "field", ["X-Note: \xff\xfe", "User-Agent: \xc3\x28", "Authorization: Bearer \xff", "Cookie: a=\xe9"]
)
async def test_a_field_that_is_no_utf8_hinders_nothing(field: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing fails, other content is scanned, and invalid bytes are not forwarded."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url) as endpoint:
        statuses = await talk(endpoint, post(BENIGN, field), post(ATTACK, field))
    assert statuses == [200, 400, 200]
    assert all(byte < 128 for byte in upstream.requests[0].head)
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_trailers_of_an_answer_are_not_fields_of_the_next() -> None:
    """On one connection to the upstream, which many clients share."""

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "application/json", TE) + b"2\r\n{}\r\n0\r\nX-Leak: EVIL\r\n\r\n")
        await writer.drain()

    async with recording(script) as upstream, run_proxy(upstream.url) as endpoint:
        replies = [await endpoint.ask(CHAT) for _ in range(3)]
    assert [(reply.status, reply.body, "X-Leak" in reply.headers) for reply in replies] == [(200, b"{}", False)] * 3
    assert upstream.connections == 1
