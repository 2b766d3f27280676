"""Tests of forwarding, to a real recording server and to things that are no server at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anthropic
import openai
import pytest
from aiohttp import web
from inline_proxy import eventually
from multidict import CIMultiDict
from recording import Received, Recording, Script, raw, recording, respond, stream
from support import free_port

from sidecar.config import Upstream as Settings
from sidecar.config.sections import UpstreamHeaders
from sidecar.errors import ConfigError, UpstreamError
from sidecar.upstream.http import ATTEMPTS, HttpUpstream, _response_timeout, read_credential
from sidecar.upstream.message import UpstreamRequest

QUICK = Settings(connect_timeout=0.3, first_byte_timeout=0.3, idle_timeout=0.3)


async def ask(url: str, request: UpstreamRequest, credential: str | None = None, settings: Settings = QUICK) -> bytes:
    """Send one request and read the whole response."""
    upstream = HttpUpstream(url, settings, credential)
    try:
        async with upstream.send(request) as response:
            return b"".join([chunk async for chunk in response.chunks()])
    finally:
        await upstream.close()


def post(target: str = "/v1/chat/completions", body: object = b"{}", **fields: str) -> UpstreamRequest:
    """A POST with the given header fields."""
    headers = CIMultiDict({name.replace("_", "-"): value for name, value in fields.items()})
    return UpstreamRequest("POST", target, headers, body)


async def record(request: UpstreamRequest, path: str = "", credential: str | None = None) -> Recording:
    """A recorder that has received one request."""
    async with recording() as recorder:
        await ask(recorder.url + path, request, credential)
        return recorder


async def test_nothing_is_added_to_a_request() -> None:
    """No user agent, no accepted encodings, no content type: only framing and host."""
    request = (await record(post(body=b'{"a":1}', X_Mine="1"))).requests[0]
    assert sorted(name for name, _ in request.fields) == ["content-length", "host", "x-mine"]
    assert request.body == b'{"a":1}'


@pytest.mark.parametrize(
    "target",
    ["/v1/models/ft%3Agpt", "/v1/x?a=%2F..%2f&b=%00&c=a+b&d=[1]", "/v1/a!$&'()*+,=:@b?x=?y", "/v1/x?q=%e2%82%ac;z"],
)
async def test_targets_are_sent_byte_for_byte(target: str) -> None:
    """What was classified is what is requested: no escape is added, resolved or rewritten."""
    assert (await record(post(target))).requests[0].target == target


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
async def test_the_base_path_precedes_the_target_once(base: str, target: str, sent: str) -> None:
    """`upstream.url` may end in `/v1`, as base URLs usually do; it is not repeated."""
    assert (await record(post(target), base)).requests[0].target == sent


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("HEAD", None), ("DELETE", None), ("POST", b"")])
async def test_a_request_without_a_body_stays_without(method: str, body: bytes | None) -> None:
    """No body and no chunks are added."""
    request = (await record(UpstreamRequest(method, "/v1/models", CIMultiDict(), body))).requests[0]
    assert request.body == b""
    assert request.header("transfer-encoding") is None
    assert request.header("content-length") in {None, "0"}


async def test_a_body_may_be_streamed() -> None:
    """A body too large to buffer is forwarded as it arrives."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    assert (await record(post(body=pieces()))).requests[0].body == b"onetwo"


async def test_a_truncated_body_never_looks_complete() -> None:
    """If the client disconnects, the upstream gets no more data and no end of the body."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise web.RequestPayloadError

    async with recording() as recorder:
        with pytest.raises(UpstreamError) as caught:
            await ask(recorder.url, post(body=pieces(), Content_Length="10"))
        await eventually(recorder.disconnected.is_set)
    assert (caught.value.status, recorder.requests) == (502, [])


async def test_the_credential_replaces_what_the_client_sent() -> None:
    """With a key of its own, the sidecar forwards no other credential, under any name."""
    request = post(Authorization="Bearer client", X_API_Key="client", Api_Key="client")
    request = (await record(request, credential="sk-real")).requests[0]
    assert request.header("authorization") == "Bearer sk-real"
    assert b"client" not in request.head


async def test_other_headers_hold_the_bare_credential() -> None:
    """Azure and Anthropic expect the key itself."""
    request = UpstreamRequest("POST", "/v1/messages", CIMultiDict(), b"{}", "X-API-Key")
    assert (await record(request, credential="sk-real")).requests[0].header("x-api-key") == "sk-real"


async def test_without_a_credential_that_of_the_client_is_forwarded() -> None:
    """By default the sidecar is transparent to authorisation."""
    assert (await record(post(Authorization="Bearer mine"))).requests[0].header("authorization") == "Bearer mine"


async def test_responses_pass_with_status_headers_and_encoded_bytes() -> None:
    """Redirects are not followed, repeated fields stay repeated, nothing is decompressed."""
    fields = ("Content-Encoding: gzip", "Set-Cookie: a=1", "Set-Cookie: b=2", "Location: http://127.0.0.1:1/")
    async with recording(respond(b"\x1f\x8bnot really", "302 Look There", "text/plain", *fields)) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        async with upstream.send(post()) as response:
            assert (response.status, response.reason) == (302, "Look There")
            assert response.headers.getall("Set-Cookie") == ["a=1", "b=2"]
            assert b"".join([chunk async for chunk in response.chunks()]) == b"\x1f\x8bnot really"
        await upstream.close()
    assert len(recorder.requests) == 1


async def test_connections_are_reused_and_cookies_are_not() -> None:
    """A second request uses the same connection but not the first one's cookies."""
    async with recording(respond(b"{}", "200 OK", "text/plain", "Set-Cookie: a=1")) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        for _ in range(2):
            async with upstream.send(post()) as response:
                assert [chunk async for chunk in response.chunks()] == [b"{}"]
        await upstream.close()
    assert recorder.connections == 1
    assert recorder.requests[1].header("cookie") is None


async def test_a_refused_connection_is_502() -> None:
    """The message does not name the address."""
    with pytest.raises(UpstreamError) as caught:
        await ask(f"http://127.0.0.1:{free_port()}", post())
    assert (caught.value.status, caught.value.detail) == (502, "The upstream did not answer (connection refused).")


async def test_a_failed_connection_is_retried() -> None:
    """Only connection attempts are retried, and a bounded number of times."""
    tried = []

    class Counted(HttpUpstream):
        async def _request(self, request: UpstreamRequest) -> object:
            tried.append(request)
            return await super()._request(request)

    upstream = Counted(f"http://127.0.0.1:{free_port()}", QUICK)
    with pytest.raises(UpstreamError):
        async with upstream.send(post()):
            pass
    await upstream.close()
    assert len(tried) == ATTEMPTS


async def test_a_name_that_does_not_resolve_is_502() -> None:
    """The message does not name the host."""
    with pytest.raises(UpstreamError) as caught:
        await ask("http://no-such-host.invalid", post(), settings=Settings(first_byte_timeout=10.0))
    assert (caught.value.status, "invalid" in caught.value.detail) == (502, False)


async def test_tls_against_a_plain_server_is_502() -> None:
    """A failed handshake is not retried."""

    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 no TLS here\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        with pytest.raises(UpstreamError) as caught:
            await ask(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", post())
    assert (caught.value.status, caught.value.detail) == (502, "The upstream did not answer (TLS failed).")


@pytest.mark.parametrize("script", [raw(b"", end="stall"), raw(b"HTTP/1.1 200 OK\r\n", end="stall")])
async def test_no_response_in_time_is_504(script: Script) -> None:
    """Silence or an incomplete header ends after the first-byte timeout."""
    async with recording(script) as recorder:
        with pytest.raises(UpstreamError) as caught:
            await ask(recorder.url, post())
        assert caught.value.status == 504
        async with asyncio.timeout(1):
            await recorder.disconnected.wait()
    assert len(recorder.requests) == 1


@pytest.mark.parametrize("request_", [post(), UpstreamRequest("GET", "/v1/models", CIMultiDict())])
@pytest.mark.parametrize(
    "script", [raw(b""), raw(b"", end="reset"), raw(b"garbage\r\n\r\n"), raw(b"HTTP/1.1 999999 X\r\n\r\n")]
)
async def test_an_invalid_response_head_is_502_and_not_retried(script: Script, request_: UpstreamRequest) -> None:
    """Once data was sent on a new connection a failure is final: the request may have been processed."""
    async with recording(script) as recorder:
        with pytest.raises(UpstreamError) as caught:
            await ask(recorder.url, request_)
    assert caught.value.status == 502
    assert len(recorder.requests) == 1


@asynccontextmanager
async def warmed_up(recorder: Recording, number: int) -> AsyncIterator[HttpUpstream]:
    """An upstream with `number` open connections that have carried a response."""
    upstream = HttpUpstream(recorder.url, QUICK)

    async def once() -> None:
        async with upstream.send(post()) as response:
            assert [chunk async for chunk in response.chunks()] == [b"{}"]

    await asyncio.gather(*(once() for _ in range(number)))
    assert recorder.connections == number
    yield upstream
    await upstream.close()


async def pieces() -> AsyncIterator[bytes]:
    """A body that can be read only once."""
    yield b"x"


@pytest.mark.parametrize("end", ["cut", "reset"])
@pytest.mark.parametrize(
    ("method", "body", "times"),
    [("GET", None, 2), ("HEAD", None, 2), ("GET", b"{}", 2), ("GET", pieces, 1), ("POST", None, 1), ("POST", b"{}", 1)],
)
async def test_only_safe_requests_are_repeated_after_a_reused_connection(
    method: str, body: bytes | Callable[[], AsyncIterator[bytes]] | None, times: int, end: str
) -> None:
    """Llama.cpp closes connections silently after a stream: the next GET is repeated, a POST could be a duplicate."""
    second = UpstreamRequest(method, "/v1/models", CIMultiDict(), body() if callable(body) else body)
    async with recording() as recorder, warmed_up(recorder, 1) as upstream:
        answered = recorder.script

        async def once(received: Received, writer: asyncio.StreamWriter) -> None:
            recorder.script = answered
            await raw(b"", end=end)(received, writer)

        recorder.script = once
        if times == 2:
            async with upstream.send(second) as response:
                assert response.status == 200
        else:
            with pytest.raises(UpstreamError) as caught:
                async with upstream.send(second):
                    pass
            assert (caught.value.status, "connection lost" in caught.value.detail) == (502, True)
    assert [received.line.split()[0] for received in recorder.requests] == ["POST", *[method] * times]
    assert recorder.connections == times


async def test_the_second_attempt_uses_a_fresh_connection_and_is_final() -> None:
    """Of five idle connections one is tried, then a new one: two attempts in all."""
    async with recording() as recorder, warmed_up(recorder, 5) as upstream:
        recorder.script = raw(b"")
        with pytest.raises(UpstreamError) as caught:
            async with upstream.send(UpstreamRequest("GET", "/v1/models", CIMultiDict())):
                pass
    assert (caught.value.status, "connection lost" in caught.value.detail) == (502, True)
    assert [received.line.split()[0] for received in recorder.requests] == ["POST"] * 5 + ["GET"] * 2
    assert recorder.connections == 6


@pytest.mark.parametrize(("end", "status"), [("cut", 502), ("reset", 502), ("stall", 504)])
async def test_a_truncated_body_raises_after_what_arrived(end: str, status: int) -> None:
    """Data received before the failure is passed on; the failure is never taken for an end."""
    async with recording(stream([b"data: 1\n\n"], pause=0.05, end=end)) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        async with upstream.send(post()) as response:
            chunks = response.chunks()
            assert await anext(chunks) == b"data: 1\n\n"
            with pytest.raises(UpstreamError) as caught:
                await anext(chunks)
        await upstream.close()
    assert caught.value.status == status


async def test_a_shorter_body_than_announced_raises() -> None:
    """A body shorter than its Content-Length is truncated, too."""
    async with recording(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")) as recorder:
        with pytest.raises(UpstreamError):
            await ask(recorder.url, post())


async def test_no_free_connection_in_time_is_504() -> None:
    """With all `connections` held by streams, requests do not wait for those to end."""
    async with recording(stream([b"data: 1\n\n"], end="stall")) as recorder:
        upstream = HttpUpstream(recorder.url, Settings(connections=1, connect_timeout=0.2))
        async with upstream.send(post()):
            with pytest.raises(UpstreamError) as caught:
                async with upstream.send(post()):
                    pass
        await upstream.close()
    assert (caught.value.status, len(recorder.requests)) == (504, 1)


async def test_leaving_early_closes_the_connection() -> None:
    """When the consumer stops reading, the upstream stops generating."""
    async with recording(stream([b"data: 1\n\n"], end="stall")) as recorder:
        upstream = HttpUpstream(recorder.url, QUICK)
        async with upstream.send(post()) as response:
            await anext(response.chunks())
        async with asyncio.timeout(1):
            await recorder.disconnected.wait()
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
        async with upstream.send(post()) as response:
            await anext(response.chunks())
            consumed = -1
            while consumed != sent:
                consumed = sent
                await asyncio.sleep(0.1)
            assert sent < 32 * 2**20
        await upstream.close()


async def test_a_credential_is_read_from_a_file(tmp_path: Path) -> None:
    """A trailing line break is stripped."""
    file = tmp_path / "key"
    file.write_text("sk-1\n")
    assert read_credential(file) == "sk-1"
    assert read_credential(None) is None


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff", b"two\nlines"])
async def test_a_file_without_a_key_is_a_configuration_error(tmp_path: Path, content: bytes | None) -> None:
    """It is reported at startup, not with the first request."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"upstream\.api_key_file"):
        read_credential(file)


@pytest.mark.parametrize("url", ["http:///v1", "http://host:port/v1"])
def test_a_url_that_names_no_server_is_a_configuration_error(url: str) -> None:
    """No host or an invalid port: one message, no traceback."""
    with pytest.raises(ConfigError, match=r"upstream\.url"):
        HttpUpstream(url, QUICK)


def test_the_defaults_wait_as_long_as_the_sdks() -> None:
    """Before the first byte and between chunks: a shorter timeout would end requests the client still waits for."""
    settings, theirs = Settings(), openai.DEFAULT_TIMEOUT.read
    assert theirs == anthropic.DEFAULT_TIMEOUT.read == settings.first_byte_timeout == settings.idle_timeout


@pytest.mark.parametrize(
    ("timeout", "waits"), [("600", 600), ("0.2", 30), ("", 30), ("soon", 30), ("nan", 30), ("1e9", 3600), (None, 30)]
)
def test_a_longer_client_timeout_is_used(timeout: str | None, waits: float) -> None:
    """SDKs announce their timeout; the setting is the minimum, an hour the maximum."""
    headers = CIMultiDict({} if timeout is None else {"x-stainless-timeout": timeout})
    assert _response_timeout(UpstreamRequest("POST", "/", headers, b""), 30.0) == waits


async def test_headers_about_the_clients_network_are_removed() -> None:
    """Cookies, addresses, CDN headers and names with underscores; headers the operator adds replace the client's."""
    forwarded = {"OpenAI-Beta": "a", "X-Title": "t", "cf-aig-authorization": "b", "HTTP-Referer": "app"}
    removed = {"Cookie": "s=1", "X-Forwarded-For": "10.0.0.7", "x-forwarded-host": "h", "CF-Ray": "7", "X_Mine": "1"}
    removed |= dict.fromkeys(("X-Real-IP", "Forwarded", "CF-Connecting-IP", "Origin", "Referer", "Via"), "10.0.0.7")
    settings = Settings(headers=UpstreamHeaders(add={"OpenAI-Beta": "assistants=v2", "X-Team": "search"}))
    async with recording(respond(b"{}")) as recorder:
        for chosen in (Settings(), settings):
            await ask(
                recorder.url,
                UpstreamRequest("POST", "/v1/x", CIMultiDict(forwarded | removed), b"{}"),
                settings=chosen,
            )
    plain, added = recorder.requests
    assert {name.lower(): value for name, value in forwarded.items()}.items() <= dict(plain.fields).items()
    assert not {name.lower() for name in removed} & dict(plain.fields).keys()
    assert (added.header("openai-beta"), added.header("x-team")) == ("assistants=v2", "search")


async def test_the_sidecars_key_is_not_combined_with_a_clients_account(tmp_path: Path) -> None:
    """The organisation and project that a client names belong to its own key."""
    account = {"OpenAI-Organization": "org-1", "OpenAI-Project": "proj_1"}
    async with recording(respond(b"{}")) as recorder:
        for credential in (None, "sk-ours"):
            upstream = HttpUpstream(recorder.url, QUICK, credential)
            async with upstream.send(UpstreamRequest("POST", "/v1/x", CIMultiDict(account), b"{}")) as response:
                [_ async for _ in response.chunks()]
            await upstream.close()
    assert [received.header("openai-organization") for received in recorder.requests] == ["org-1", None]
