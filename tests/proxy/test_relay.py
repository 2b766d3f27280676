"""Twin of sidecar/proxy/relay.py: streams are relayed as they arrive, and a truncated one never ends cleanly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from inline_proxy import CHAT, InlineProxy, eventually, post, run_proxy
from recording import Received, head, raw, recording, respond, stream

from sidecar.errors import UpstreamError
from sidecar.response_scan.sse import EVENT_BYTES, whole_events
from sidecar.server.server import SHUTTING_DOWN

STREAM = CHAT | {"stream": True}
EVENT = b'data: {"n": 1}\n\n'
END = b"0\r\n\r\n"


def unchunk(answer: bytes) -> tuple[bytes, bool]:
    """The body of a chunked answer, and whether it ended cleanly."""
    remainder, body = answer.partition(b"\r\n\r\n")[2], b""
    while remainder:
        size, _, remainder = remainder.partition(b"\r\n")
        if int(size, 16) == 0:
            return body, True
        body, remainder = body + remainder[: int(size, 16)], remainder[int(size, 16) + 2 :]
    return body, False


async def talk(endpoint: InlineProxy, body: object = STREAM) -> tuple[bytes, bool]:
    """Body of the response to one chat, and whether it ended cleanly."""
    return unchunk(await endpoint.talk(post(body)))


@pytest.mark.parametrize("mark", [b"\n", b"\r\n", b"\r"])
async def test_a_stream_passes_unchanged_and_ends_cleanly(mark: bytes) -> None:
    """With any line ending and any chunking."""
    sent = mark.join([b": comment", b"event: a", b"data: 1", b"", b"data: [DONE]", b"", b""])
    pieces = [sent[i : i + 5] for i in range(0, len(sent), 5)]
    async with recording(stream(pieces, pause=0.001)) as upstream, run_proxy(upstream.url) as endpoint:
        assert await talk(endpoint) == (sent, True)


@pytest.mark.parametrize("framing", ["chunked", "length"])
async def test_an_event_arrives_before_the_next_is_made(framing: str) -> None:
    """No buffering: the upstream sends its second event only after the client has read the first."""
    read = asyncio.Event()
    chunk = EVENT if framing == "length" else f"{len(EVENT):x}\r\n".encode() + EVENT + b"\r\n"
    field = f"Content-Length: {2 * len(EVENT)}" if framing == "length" else "Transfer-Encoding: chunked"

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "text/event-stream", field) + chunk)
        await read.wait()
        writer.write(chunk + (b"" if framing == "length" else END))

    async with recording(script) as upstream, run_proxy(upstream.url, upstream={"idle_timeout": 30.0}) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(STREAM))
        async with asyncio.timeout(5):
            await reader.readuntil(EVENT)
            read.set()
            assert (await reader.read()).endswith(EVENT if framing == "length" else END)
        writer.close()


async def test_headers_arrive_before_the_first_event() -> None:
    """The client gets the headers at once."""
    async with recording(stream([], end="stall")) as upstream, run_proxy(upstream.url) as endpoint:
        assert b"x-sidecar-action: allow" in await endpoint.talk(post(STREAM), until=b"\r\n\r\n")


@pytest.mark.parametrize("end", ["cut", "reset", "stall"])
async def test_a_cut_stream_ends_with_an_error_event_and_dirty(end: str) -> None:
    """Complete events, then an error event instead of the half event, and no proper end."""
    parts = [EVENT, b'data: {"n": 2']
    async with recording(stream(parts, pause=0.02, end=end)) as upstream, run_proxy(upstream.url) as endpoint:
        body, clean = await talk(endpoint)
    assert (body.startswith(EVENT + b'data: {"error":'), body.endswith(b"\n\n"), clean) == (True, True, False)
    assert json.loads(body[len(EVENT) + 6 :])["error"]["code"] == "upstream_error"
    assert b'"n": 2' not in body


async def test_the_messages_api_gets_its_own_error_event() -> None:
    """Named `error`, as that API's clients expect it."""
    async with recording(stream([EVENT], pause=0.02, end="cut")) as upstream, run_proxy(upstream.url) as endpoint:
        body, clean = unchunk(await endpoint.talk(post(STREAM, "/v1/messages")))
    assert (body.startswith(EVENT + b'event: error\ndata: {"type":"error"'), clean) == (True, False)


async def test_a_cut_body_that_is_no_stream_ends_dirty_and_unchanged() -> None:
    """No error event is written into a JSON body."""
    script = stream([b'{"a":', b"1"], pause=0.02, end="cut", content_type="application/json")
    async with recording(script) as upstream, run_proxy(upstream.url) as endpoint:
        assert await talk(endpoint, CHAT) == (b'{"a":1', False)


async def test_a_body_shorter_than_its_length_stays_shorter() -> None:
    """The client sees fewer bytes than announced, and the connection ends."""
    script = raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nshort")
    async with recording(script) as upstream, run_proxy(upstream.url) as endpoint:
        received = await endpoint.talk(post(CHAT))
    assert b"Content-Length: 10\r\n" in received
    assert received.endswith(b"\r\n\r\nshort")


async def test_an_old_client_sees_a_reset_where_the_end_of_the_connection_is_the_end() -> None:
    """HTTP/1.0 has no other sign of truncation."""
    async with recording(stream([EVENT], pause=0.05, end="cut")) as upstream, run_proxy(upstream.url) as endpoint:
        with pytest.raises(ConnectionResetError):
            await endpoint.talk(post(STREAM, version="1.0"))


async def test_a_compressed_stream_passes_and_is_cut_without_words() -> None:
    """Its events cannot be parsed, so no error event is inserted."""
    parts = head("200 OK", "text/event-stream", "Content-Encoding: gzip", "Transfer-Encoding: chunked")
    async with recording(raw(parts + b"4\r\n\x1f\x8bab\r\n")) as upstream, run_proxy(upstream.url) as endpoint:
        assert await talk(endpoint) == (b"\x1f\x8bab", False)


@pytest.mark.parametrize("sent", [b"data: never ended", b"\x00\xff garbage", EVENT + b"rest"])
async def test_broken_events_pass_if_the_stream_ends_cleanly(sent: bytes) -> None:
    """It is not repaired."""
    async with recording(stream([sent])) as upstream, run_proxy(upstream.url) as endpoint:
        assert await talk(endpoint) == (sent, True)


async def test_json_in_answer_to_a_stream_passes() -> None:
    """Upstreams do that for errors."""
    async with recording(respond(b'{"error":{}}', "429 Slow")) as upstream, run_proxy(upstream.url) as endpoint:
        received = await endpoint.talk(post(STREAM))
    assert received.endswith(b'\r\n\r\n{"error":{}}')


async def test_an_event_passes_whatever_its_size() -> None:
    """An event with an image of eight megabytes, between two small ones."""
    picture = b"data: " + b"x" * 8 * EVENT_BYTES + b"\n\n"
    parts = [EVENT, *(picture[at : at + 65536] for at in range(0, len(picture), 65536)), EVENT]
    async with recording(stream(parts)) as upstream, run_proxy(upstream.url) as endpoint:
        body, clean = await talk(endpoint)
    assert (body == EVENT + picture + EVENT, clean) == (True, True)


async def test_an_event_that_is_looked_at_has_a_bound() -> None:
    """Up to `answers.body_bytes` it is buffered; beyond that no more is held."""
    picture = b'data: {"b64_json":"' + b"x" * 3 * EVENT_BYTES + b'"}\n\n'
    settings = {"responses": "block", "answers": {"body_bytes": "4MiB"}}
    for size, passes in ((1, True), (2, False)):
        parts = [EVENT, picture[:-3] + b"x" * (size - 1) * 2 * EVENT_BYTES + picture[-3:]]
        async with recording(stream(parts)) as upstream, run_proxy(upstream.url, **settings) as endpoint:
            body, clean = await talk(endpoint)
        assert (clean, len(body) > len(picture)) == (passes, passes)


async def test_a_slow_client_slows_the_upstream_down() -> None:
    """No more is read from the upstream than the buffers hold."""
    sent = 0

    async def flood(_received: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head("200 OK", "text/plain", "Connection: close"))
        for _ in range(2048):
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with recording(flood) as upstream, run_proxy(upstream.url, upstream={"idle_timeout": 30.0}) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, limit=1024)
        writer.write(post(STREAM))
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 32 * 2**20
        writer.transport.abort()
        await eventually(upstream.disconnected.is_set)


async def test_a_client_that_takes_nothing_is_let_go() -> None:
    """After `idle_timeout` both connections are closed."""

    async def flood(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "text/plain", "Connection: close"))
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with recording(flood) as upstream, run_proxy(upstream.url) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, limit=1024)
        writer.write(post(STREAM))
        await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(5):
            await upstream.disconnected.wait()
            with pytest.raises(ConnectionResetError):
                await reader.read()
        writer.close()


@pytest.mark.parametrize(
    ("path", "named"), [("/v1/chat/completions", b"data: "), ("/v1/messages", b"event: error\ndata: ")]
)
async def test_a_stream_that_outlives_a_shutdown_is_told_so(path: str, named: bytes) -> None:
    """Just before the drain timeout it gets an error event of its API, and no clean end."""
    patient, body = {"idle_timeout": 30.0}, STREAM | {"max_tokens": 9}
    async with (
        recording(stream([EVENT], end="stall")) as upstream,
        run_proxy(upstream.url, upstream=patient) as endpoint,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(body, path))
        received = await reader.readuntil(EVENT)
        await endpoint.site.close()
        notice, clean = unchunk(received + await reader.read())
        writer.close()
    assert notice.startswith(EVENT + named)
    assert json.loads(notice.rpartition(b"data: ")[2])["error"]["message"] == SHUTTING_DOWN
    assert not clean


@pytest.mark.parametrize(("leaves", "logged"), [(True, "client_closed"), (False, "answer_cut")])
async def test_the_log_tells_a_client_that_left_from_a_stream_that_was_cut(
    leaves: bool, logged: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One is caused by the client, the other by the shutdown."""
    patient = {"idle_timeout": 30.0}
    async with (
        recording(stream([EVENT], end="stall")) as upstream,
        run_proxy(upstream.url, upstream=patient) as endpoint,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(post(STREAM))
        await reader.readuntil(EVENT)
        if leaves:
            writer.close()
            await upstream.disconnected.wait()
        await endpoint.site.close()
        writer.close()
    reply = "".join(capfd.readouterr())
    assert [word for word in ("client_closed", "answer_cut") if word in reply] == [logged]


async def test_a_request_that_outlives_a_shutdown_is_answered() -> None:
    """The upstream may be working on it: 504, not retried; the record says forwarded, not blocked."""
    question = asyncio.Event()

    async def script(_received: Received, _writer: asyncio.StreamWriter) -> None:
        question.set()
        await asyncio.sleep(60)

    patient = {"first_byte_timeout": 60.0}
    async with recording(script) as upstream, run_proxy(upstream.url, upstream=patient) as endpoint:
        async with asyncio.TaskGroup() as group:
            talking = group.create_task(endpoint.talk(post(CHAT)))
            await question.wait()
            await endpoint.site.close()
        status, notice = talking.result().split(b" ", 2)[1:]
        assert (endpoint.decision.action, endpoint.decision.status) == ("allow", 504)
    assert status == b"504"
    assert SHUTTING_DOWN.encode() in notice
    assert b"x-should-retry: false" in notice


@pytest.mark.parametrize(
    ("sent", "came"),
    [
        (b"X-A: caf\xc3\xa9\r\n", "X-A: café".encode()),
        (b"X-A: caf\xe9 au lait\r\n", "X-A: café au lait".encode()),
        (b"".join(b"X-%d: a\r\n" % number for number in range(500)), b"X-499: a"),
        (b"X-A: " + b"a" * 60_000 + b"\r\n", b"X-A: " + b"a" * 60_000),
    ],
)
async def test_odd_header_fields_of_an_upstream_pass(sent: bytes, came: bytes) -> None:
    """Latin-1, many and long headers, as some providers' gateways send them."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    async with recording(raw(head + sent + b"\r\n{}")) as upstream, run_proxy(upstream.url) as endpoint:
        received = await endpoint.talk(post(CHAT))
    assert received.startswith(b"HTTP/1.1 200 ")
    assert came + b"\r\n" in received


async def test_bytes_behind_an_answer_are_refused() -> None:
    """They could start another response: 502, which names invalid HTTP."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}XX"
    async with recording(raw(answer)) as upstream, run_proxy(upstream.url) as endpoint:
        received = await endpoint.talk(post(CHAT))
    assert received.startswith(b"HTTP/1.1 502 ")
    assert b"not valid HTTP" in received


@pytest.mark.parametrize("url", ["echo://", "recording"])
async def test_an_answer_to_head_has_no_body(url: str) -> None:
    """Whatever the upstream sends; its Content-Length is kept."""
    sent = b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with (
        recording(respond(b"{}")) as upstream,
        run_proxy(upstream.url if url == "recording" else url) as endpoint,
    ):
        received = await endpoint.talk(sent)
    assert (received.split(b" ")[1], received.partition(b"\r\n\r\n")[2]) == (b"200", b"")


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """Chunks as they arrive."""
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("parts", "cut"),
    [
        ((b"a\n\nb\n\nc",), [b"a\n\nb\n\n", b"c"]),
        ((b"a\n", b"\nb"), [b"a\n\n", b"b"]),
        ((b"a\r\n\r", b"\nb"), [b"a\r\n\r\n", b"b"]),
        ((b"a\n", b"\r", b"\nb"), [b"a\n\r\n", b"b"]),
        ((b"a\r", b"\r"), [b"a\r\r"]),
        ((), []),
    ],
)
async def test_bytes_are_cut_behind_events(parts: tuple[bytes, ...], cut: list[bytes]) -> None:
    """Also if the end of an event is split over chunks."""
    assert [part async for part in whole_events(pieces(*parts))] == cut


async def test_many_small_pieces_of_one_event_are_bounded() -> None:
    """The limit applies to buffered bytes, not to the total; without one nothing is lost."""
    long = [b"x" * 1024] * (EVENT_BYTES // 1024 + 1)
    with pytest.raises(UpstreamError):
        async for _ in whole_events(pieces(*long), EVENT_BYTES):
            pass
    for end in ([b"\n", b"\nA"], [b"\n\nA"], [b"\r", b"\rA"], [b"\n\r", b"\nA"]):
        results = [part async for part in whole_events(pieces(*long, *end))]
        assert b"".join(results) == b"".join([*long, *end])
        assert results[-1] == b"A"
    assert len([part async for part in whole_events(pieces(*[b"x" * 1022 + b"\n\n"] * 2048))]) == 2048
