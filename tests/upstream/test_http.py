"""Twin of sidecar/upstream/http.py: forwarding to a real recording server, and to what is no server at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anthropic
import openai
import pytest
from aiohttp import web
from door import eventually
from multidict import CIMultiDict
from recording import Received, Recording, Script, raw, recording, stream, whole
from support import free_port

from sidecar.config import Upstream as Settings
from sidecar.config.sections import UpstreamHeaders
from sidecar.errors import ConfigError, UpstreamError
from sidecar.upstream.http import ATTEMPTS, HttpUpstream, _patience, read_credential
from sidecar.upstream.message import Outgoing

QUICK = Settings(connect_timeout=0.3, first_byte_timeout=0.3, idle_timeout=0.3)


async def ask(url: str, request: Outgoing, credential: str | None = None, settings: Settings = QUICK) -> bytes:
    """Send one request and read the whole answer."""
    upstream = HttpUpstream(url, settings, credential)
    try:
        async with upstream.send(request) as answer:
            return b"".join([chunk async for chunk in answer.chunks()])
    finally:
        await upstream.close()


def post(target: str = "/v1/chat/completions", body: object = b"{}", **fields: str) -> Outgoing:
    """A POST with the given header fields."""
    headers = CIMultiDict({name.replace("_", "-"): value for name, value in fields.items()})
    return Outgoing("POST", target, headers, body)


async def asked(request: Outgoing, path: str = "", credential: str | None = None) -> Recording:
    """What a recorder has seen of one request."""
    async with recording() as recorder:
        await ask(recorder.url + path, request, credential)
        return recorder


async def test_nothing_is_added_to_a_request() -> None:
    """No user agent, no accepted encodings, no content type: only framing and host."""
    seen = (await asked(post(body=b'{"a":1}', X_Mine="1"))).requests[0]
    assert sorted(name for name, _ in seen.fields) == ["content-length", "host", "x-mine"]
    assert seen.body == b'{"a":1}'


@pytest.mark.parametrize(
    "target",
    ["/v1/models/ft%3Agpt", "/v1/x?a=%2F..%2f&b=%00&c=a+b&d=[1]", "/v1/a!$&'()*+,=:@b?x=?y", "/v1/x?q=%e2%82%ac;z"],
)
async def test_targets_go_out_byte_for_byte(target: str) -> None:
    """What was classified is what is asked for: no escape is added, resolved or rewritten."""
    assert (await asked(post(target))).requests[0].target == target


@pytest.mark.parametrize(
    ("base", "target", "sent"),
    [
        ("", "/v1/models", "/v1/models"),
        ("/v1", "/v1/models", "/v1/models"),
        ("/api/v1/", "/v1/models", "/api/v1/models"),
        ("/v1", "/models", "/v1/models"),
        ("/llm", "/v1/models", "/llm/v1/models"),
    ],
)
async def test_a_base_path_goes_before_the_target_once(base: str, target: str, sent: str) -> None:
    """`upstream.url` may end in `/v1`, as people write base URLs; it is not said twice."""
    assert (await asked(post(target), base)).requests[0].target == sent


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("HEAD", None), ("DELETE", None), ("POST", b"")])
async def test_a_request_without_a_body_stays_without(method: str, body: bytes | None) -> None:
    """No body and no chunks are invented."""
    seen = (await asked(Outgoing(method, "/v1/models", CIMultiDict(), body))).requests[0]
    assert seen.body == b""
    assert seen.header("transfer-encoding") is None
    assert seen.header("content-length") in {None, "0"}


async def test_a_body_may_come_in_pieces() -> None:
    """What is too large to hold goes up as it arrives."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    assert (await asked(post(body=pieces()))).requests[0].body == b"onetwo"


async def test_a_body_that_breaks_off_never_looks_whole() -> None:
    """The client left in the middle of what it had announced: the upstream gets no more, and no end."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise web.RequestPayloadError

    async with recording() as recorder:
        with pytest.raises(UpstreamError) as caught:
            await ask(recorder.url, post(body=pieces(), Content_Length="10"))
        await eventually(recorder.left.is_set)
    assert (caught.value.status, recorder.requests) == (502, [])


async def test_the_credential_replaces_what_the_client_sent() -> None:
    """With a key of its own, the sidecar sends no other credential up, under any name."""
    request = post(Authorization="Bearer client", X_API_Key="client", Api_Key="client")
    seen = (await asked(request, credential="sk-real")).requests[0]
    assert seen.header("authorization") == "Bearer sk-real"
    assert b"client" not in seen.head


async def test_a_header_of_its_own_takes_the_bare_credential() -> None:
    """Azure and Anthropic read the key itself."""
    request = Outgoing("POST", "/v1/messages", CIMultiDict(), b"{}", "X-API-Key")
    assert (await asked(request, credential="sk-real")).requests[0].header("x-api-key") == "sk-real"


async def test_without_a_credential_the_clients_passes() -> None:
    """The sidecar is transparent to authorisation by default."""
    assert (await asked(post(Authorization="Bearer mine"))).requests[0].header("authorization") == "Bearer mine"


async def test_answers_pass_with_status_headers_and_coded_bytes() -> None:
    """Redirects are not followed, repeated fields stay repeated, nothing is decompressed."""
    fields = ("Content-Encoding: gzip", "Set-Cookie: a=1", "Set-Cookie: b=2", "Location: http://127.0.0.1:1/")
    async with recording(whole(b"\x1f\x8bnot really", "302 Look There", "text/plain", *fields)) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        async with upstream.send(post()) as answer:
            assert (answer.status, answer.reason) == (302, "Look There")
            assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]
            assert b"".join([chunk async for chunk in answer.chunks()]) == b"\x1f\x8bnot really"
        await upstream.close()
    assert len(recorder.requests) == 1


async def test_connections_are_kept_and_cookies_are_not() -> None:
    """A second request uses the same connection, and knows nothing of the first."""
    async with recording(whole(b"{}", "200 OK", "text/plain", "Set-Cookie: a=1")) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        for _ in range(2):
            async with upstream.send(post()) as answer:
                assert [chunk async for chunk in answer.chunks()] == [b"{}"]
        await upstream.close()
    assert recorder.connections == 1
    assert recorder.requests[1].header("cookie") is None


async def test_a_refused_connection_is_502() -> None:
    """The answer says so without naming the address."""
    with pytest.raises(UpstreamError) as caught:
        await ask(f"http://127.0.0.1:{free_port()}", post())
    assert (caught.value.status, caught.value.detail) == (502, "The upstream did not answer (connection refused).")


async def test_a_connection_is_tried_again_before_anything_went_up() -> None:
    """Only a connection that was never made is asked for again, and only so many times."""
    tried = []

    class Counted(HttpUpstream):
        async def _request(self, request: Outgoing) -> object:
            tried.append(request)
            return await super()._request(request)

    upstream = Counted(f"http://127.0.0.1:{free_port()}", QUICK)
    with pytest.raises(UpstreamError):
        async with upstream.send(post()):
            pass
    await upstream.close()
    assert len(tried) == ATTEMPTS


async def test_a_name_that_does_not_resolve_is_502() -> None:
    """The answer says so without naming the host."""
    with pytest.raises(UpstreamError) as caught:
        await ask("http://no-such-host.invalid", post(), settings=Settings(first_byte_timeout=10.0))
    assert (caught.value.status, "invalid" in caught.value.detail) == (502, False)


async def test_tls_against_a_server_that_speaks_none_is_502() -> None:
    """A failed handshake is not tried again."""

    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 no TLS here\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        with pytest.raises(UpstreamError) as caught:
            await ask(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", post())
    assert (caught.value.status, caught.value.detail) == (502, "The upstream did not answer (TLS failed).")


@pytest.mark.parametrize("script", [raw(b"", end="stall"), raw(b"HTTP/1.1 200 OK\r\n", end="stall")])
async def test_no_answer_in_time_is_504(script: Script) -> None:
    """Silence, or half a header, ends after the first byte's time."""
    async with recording(script) as recorder:
        with pytest.raises(UpstreamError) as caught:
            await ask(recorder.url, post())
        assert caught.value.status == 504
        async with asyncio.timeout(1):
            await recorder.left.wait()
    assert len(recorder.requests) == 1


@pytest.mark.parametrize("request_", [post(), Outgoing("GET", "/v1/models", CIMultiDict())])
@pytest.mark.parametrize(
    "script", [raw(b""), raw(b"", end="reset"), raw(b"garbage\r\n\r\n"), raw(b"HTTP/1.1 999999 X\r\n\r\n")]
)
async def test_a_broken_beginning_is_502_and_is_not_sent_twice(script: Script, request_: Outgoing) -> None:
    """Once bytes went up on a new connection, a failure is final: the request may have been acted on."""
    async with recording(script) as recorder:
        with pytest.raises(UpstreamError) as caught:
            await ask(recorder.url, request_)
    assert caught.value.status == 502
    assert len(recorder.requests) == 1


@asynccontextmanager
async def kept(recorder: Recording, number: int) -> AsyncIterator[HttpUpstream]:
    """An upstream that has so many connections open which have answered before."""
    upstream = HttpUpstream(recorder.url, QUICK)

    async def once() -> None:
        async with upstream.send(post()) as answer:
            assert [chunk async for chunk in answer.chunks()] == [b"{}"]

    await asyncio.gather(*(once() for _ in range(number)))
    assert recorder.connections == number
    yield upstream
    await upstream.close()


async def pieces() -> AsyncIterator[bytes]:
    """A body that cannot be read a second time."""
    yield b"x"


@pytest.mark.parametrize("end", ["cut", "reset"])
@pytest.mark.parametrize(
    ("method", "body", "times"),
    [("GET", None, 2), ("HEAD", None, 2), ("GET", b"{}", 2), ("GET", pieces, 1), ("POST", None, 1), ("POST", b"{}", 1)],
)
async def test_only_what_is_safe_is_sent_again_on_a_kept_connection(
    method: str, body: bytes | Callable[[], AsyncIterator[bytes]] | None, times: int, end: str
) -> None:
    """Llama.cpp closes after a stream without a word: the next GET asks once more, a POST may have been acted on."""
    second = Outgoing(method, "/v1/models", CIMultiDict(), body() if callable(body) else body)
    async with recording() as recorder, kept(recorder, 1) as upstream:
        answered = recorder.script

        async def once(received: Received, writer: asyncio.StreamWriter) -> None:
            recorder.script = answered
            await raw(b"", end=end)(received, writer)

        recorder.script = once
        if times == 2:
            async with upstream.send(second) as answer:
                assert answer.status == 200
        else:
            with pytest.raises(UpstreamError) as caught:
                async with upstream.send(second):
                    pass
            assert (caught.value.status, "connection lost" in caught.value.detail) == (502, True)
    assert [received.line.split()[0] for received in recorder.requests] == ["POST", *[method] * times]
    assert recorder.connections == times


async def test_a_second_loss_is_final_and_the_second_try_takes_no_kept_connection() -> None:
    """Of five that are kept one is tried, then a new one: two sends in all."""
    async with recording() as recorder, kept(recorder, 5) as upstream:
        recorder.script = raw(b"")
        with pytest.raises(UpstreamError) as caught:
            async with upstream.send(Outgoing("GET", "/v1/models", CIMultiDict())):
                pass
    assert (caught.value.status, "connection lost" in caught.value.detail) == (502, True)
    assert [received.line.split()[0] for received in recorder.requests] == ["POST"] * 5 + ["GET"] * 2
    assert recorder.connections == 6


@pytest.mark.parametrize(("end", "status"), [("cut", 502), ("reset", 502), ("stall", 504)])
async def test_a_broken_body_raises_behind_what_had_arrived(end: str, status: int) -> None:
    """What came before the break is handed on; the break is never taken for an end."""
    async with recording(stream([b"data: 1\n\n"], pause=0.05, end=end)) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        async with upstream.send(post()) as answer:
            chunks = answer.chunks()
            assert await anext(chunks) == b"data: 1\n\n"
            with pytest.raises(UpstreamError) as caught:
                await anext(chunks)
        await upstream.close()
    assert caught.value.status == status


async def test_a_shorter_body_than_announced_raises() -> None:
    """A length that is not reached is a break as well."""
    async with recording(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")) as recorder:
        with pytest.raises(UpstreamError):
            await ask(recorder.url, post())


async def test_no_free_connection_in_time_is_504() -> None:
    """With all `connections` held by streams, nobody waits for as long as those may last."""
    async with recording(stream([b"data: 1\n\n"], end="stall")) as recorder:
        upstream = HttpUpstream(recorder.url, Settings(connections=1, connect_timeout=0.2))
        async with upstream.send(post()):
            with pytest.raises(UpstreamError) as caught:
                async with upstream.send(post()):
                    pass
        await upstream.close()
    assert (caught.value.status, len(recorder.requests)) == (504, 1)


async def test_leaving_early_closes_the_connection() -> None:
    """Who stops reading stops the upstream, which would otherwise work on for nobody."""
    async with recording(stream([b"data: 1\n\n"], end="stall")) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        async with upstream.send(post()) as answer:
            await anext(answer.chunks())
        async with asyncio.timeout(1):
            await recorder.left.wait()
        await upstream.close()


async def test_a_slow_reader_slows_the_upstream_down() -> None:
    """No more is read ahead than the sockets and one buffer hold."""
    sent = 0

    async def flood(_received: object, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(1024):
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with recording(flood) as recorder:
        upstream = HttpUpstream(recorder.url, Settings())
        async with upstream.send(post()) as answer:
            await anext(answer.chunks())
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.1)
            assert sent < 32 * 2**20
        await upstream.close()


async def test_a_credential_comes_from_a_file(tmp_path: Path) -> None:
    """The line break that editors leave is no part of it."""
    file = tmp_path / "key"
    file.write_text("sk-1\n")
    assert read_credential(file) == "sk-1"
    assert read_credential(None) is None


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff", b"two\nlines"])
async def test_a_file_without_a_key_is_a_configuration_error(tmp_path: Path, content: bytes | None) -> None:
    """It is named at start, not found out with the first request."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"upstream\.api_key_file"):
        read_credential(file)


@pytest.mark.parametrize("url", ["http:///v1", "http://host:port/v1"])
def test_a_url_that_names_no_server_is_a_configuration_error(url: str) -> None:
    """No host, or a port that is no number: said in one message, not by a traceback."""
    with pytest.raises(ConfigError, match=r"upstream\.url"):
        HttpUpstream(url, QUICK)


def test_the_defaults_wait_as_long_as_the_sdks() -> None:
    """Both before the first byte and between two: who waits less would end what the client still waits for."""
    settings, theirs = Settings(), openai.DEFAULT_TIMEOUT.read
    assert theirs == anthropic.DEFAULT_TIMEOUT.read == settings.first_byte_timeout == settings.idle_timeout


@pytest.mark.parametrize(
    ("stated", "waits"), [("600", 600), ("0.2", 30), ("", 30), ("soon", 30), ("nan", 30), ("1e9", 3600), (None, 30)]
)
def test_a_client_that_waits_longer_is_waited_for(stated: str | None, waits: float) -> None:
    """SDKs say how long they wait; the setting is the least, and an hour the most."""
    headers = CIMultiDict({} if stated is None else {"x-stainless-timeout": stated})
    assert _patience(Outgoing("POST", "/", headers, b""), 30.0) == waits


async def test_what_concerns_the_clients_network_alone_stays_behind() -> None:
    """Cookies, addresses, a CDN's fields and names with underscores; what an operator adds takes the client's place."""
    kept = {"OpenAI-Beta": "a", "X-Title": "t", "cf-aig-authorization": "b", "HTTP-Referer": "app"}
    gone = {"Cookie": "s=1", "X-Forwarded-For": "10.0.0.7", "x-forwarded-host": "h", "CF-Ray": "7", "X_Mine": "1"}
    gone |= dict.fromkeys(("X-Real-IP", "Forwarded", "CF-Connecting-IP", "Origin", "Referer", "Via"), "10.0.0.7")
    settings = Settings(headers=UpstreamHeaders(add={"OpenAI-Beta": "assistants=v2", "X-Team": "search"}))
    async with recording(whole(b"{}")) as upstream:
        for made in (Settings(), settings):
            await ask(upstream.url, Outgoing("POST", "/v1/x", CIMultiDict(kept | gone), b"{}"), settings=made)
    plain, added = upstream.requests
    assert {name.lower(): value for name, value in kept.items()}.items() <= dict(plain.fields).items()
    assert not {name.lower() for name in gone} & dict(plain.fields).keys()
    assert (added.header("openai-beta"), added.header("x-team")) == ("assistants=v2", "search")


async def test_a_key_of_ours_is_not_used_for_a_clients_account(tmp_path: Path) -> None:
    """The organisation and project that a client names belong to its own key."""
    account = {"OpenAI-Organization": "org-1", "OpenAI-Project": "proj_1"}
    async with recording(whole(b"{}")) as upstream:
        for credential in (None, "sk-ours"):
            made = HttpUpstream(upstream.url, QUICK, credential)
            async with made.send(Outgoing("POST", "/v1/x", CIMultiDict(account), b"{}")) as answer:
                [_ async for _ in answer.chunks()]
            await made.close()
    assert [received.header("openai-organization") for received in upstream.requests] == ["org-1", None]
