"""The official Python SDK as a black box: through the door it gets the same as directly, and a block once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import openai
import pytest
from answers import answer
from inline_proxy import ATTACK, run_proxy
from openai import AsyncAzureOpenAI, AsyncOpenAI, OpenAI
from pydantic import BaseModel
from recording import Received, Recording, head, raw, recording, respond, stream

BENIGN = [{"role": "user", "content": "What is the capital of France?"}]
EVIL = [{"role": "user", "content": ATTACK}]
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "Looks it up.", "parameters": {"type": "object", "properties": {}}},
}
UNLIKE_ECHO = {"files", "transcription", "images", "parse", "model"}
PATIENT = {"first_byte_timeout": 20.0, "idle_timeout": 20.0}
OURS = {"date", "server", "connection", "transfer-encoding", "content-length"}
HOP = {"host", "connection", "content-length", "x-stainless-read-timeout"}


class Trip(BaseModel):
    """What a structured answer holds."""

    city: str
    days: int


CALLS: dict[str, Callable[[Any], Any]] = {
    "chat": lambda c: c.chat.completions.create(model="m", messages=BENIGN, extra_body={"x_mine": [1.0, None]}),
    "chat stream": lambda c: c.chat.completions.create(
        model="m", messages=BENIGN, stream=True, stream_options={"include_usage": True}
    ),
    "tools": lambda c: c.chat.completions.create(model="m", messages=BENIGN, tools=[TOOL]),
    "tools stream": lambda c: c.chat.completions.create(model="m", messages=BENIGN, tools=[TOOL], stream=True),
    "parse": lambda c: c.chat.completions.parse(model="m", messages=BENIGN, response_format=Trip),
    "responses": lambda c: c.responses.create(model="m", input="Where is Paris?"),
    "responses stream": lambda c: c.responses.create(model="m", input="Where is Paris?", stream=True),
    "embeddings": lambda c: c.embeddings.create(model="m", input=["a", "b"]),
    "moderations": lambda c: c.moderations.create(model="m", input="Is this fine?"),
    "images": lambda c: c.images.generate(model="m", prompt="A red house", response_format="b64_json"),
    "files": lambda c: c.files.create(file=("f.txt", b"abc"), purpose="user_data"),
    "transcription": lambda c: c.audio.transcriptions.create(model="m", file=("a.wav", b"\x00\xff" * 9), prompt="Ann"),
    "models": lambda c: c.models.list(),
    "model": lambda c: c.models.retrieve("org/my model"),
}


def plain(endpoint: Any) -> Any:
    """An object of the SDK as plain data."""
    return endpoint.model_dump(warnings=False) if isinstance(endpoint, BaseModel) else endpoint


def run_sync(call: Callable[[Any], Any], url: str) -> Any:
    """One call with the synchronous client; a stream is read to its end."""
    with OpenAI(api_key="sk-client", base_url=url) as client:
        endpoint = call(client)
        return [plain(event) for event in endpoint] if isinstance(endpoint, openai.Stream) else plain(endpoint)


async def run_async(call: Callable[[Any], Any], url: str) -> Any:
    """One call with the asynchronous client."""
    async with AsyncOpenAI(api_key="sk-client", base_url=url) as client:
        endpoint = await call(client)
        return (
            [plain(event) async for event in endpoint] if isinstance(endpoint, openai.AsyncStream) else plain(endpoint)
        )


async def run(kind: str, call: Callable[[Any], Any], url: str) -> Any:
    """One call with either client."""
    return await run_async(call, url) if kind == "async" else await asyncio.to_thread(run_sync, call, url)


@pytest.fixture(scope="module", params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Both clients of the SDK."""
    return str(request.param)


@pytest.fixture
async def upstream() -> AsyncIterator[Recording]:
    """An upstream that answers like OpenAI."""
    async with recording(answer) as endpoint:
        yield endpoint


def wire(recorder: Recording) -> list[tuple[str, list[tuple[str, str]], bytes]]:
    """Request lines, fields and bodies without what belongs to the connection, and without random boundaries."""
    results = []
    for received in recorder.requests:
        boundary = (received.header("content-type") or "").partition("boundary=")[2]
        fields = [(name, value.replace(boundary, "B") if boundary else value) for name, value in received.fields]
        results.append((received.line, sorted(field for field in fields if field[0] not in HOP), unbound(received)))
    return results


def unbound(received: Received) -> bytes:
    """The body of a request without its random boundary."""
    boundary = (received.header("content-type") or "").partition("boundary=")[2].encode()
    return received.body.replace(boundary, b"B") if boundary else received.body


@pytest.mark.parametrize("name", CALLS)
async def test_the_sdk_gets_the_same_through_the_door_as_directly(upstream: Recording, kind: str, name: str) -> None:
    """The same objects, unknown fields included, and the same bytes and fields at the upstream."""
    direct = await run(kind, CALLS[name], f"{upstream.url}/v1")
    observed = wire(upstream)
    upstream.requests.clear()
    async with run_proxy(upstream.url, inline={"files": "scan_jsonl"}, upstream=PATIENT) as endpoint:
        assert await run(kind, CALLS[name], endpoint.url) == direct
    assert wire(upstream) == observed
    assert len(observed) == 1


@pytest.mark.parametrize("name", CALLS)
async def test_nothing_changes_where_answers_are_looked_at(upstream: Recording, name: str) -> None:
    """`responses`: the same objects and bytes up, but for the coding that is asked for; the same bytes down."""
    direct = await run("async", CALLS[name], f"{upstream.url}/v1")
    (request_bytes,) = upstream.requests
    terms: Any = {"inline": {"files": "scan_jsonl"}, "upstream": PATIENT}
    for setting in ("flag", "block"):
        upstream.requests.clear()
        async with run_proxy(upstream.url, responses=setting, **terms) as endpoint:
            assert await run("async", CALLS[name], endpoint.url) == direct
            (through,) = upstream.requests
            answered = [
                await again(endpoint.session, base, request_bytes)
                for base in (upstream.url, endpoint.url.removesuffix("/v1"))
            ]
        assert (through.line, unbound(through)) == (request_bytes.line, unbound(request_bytes))
        assert answered[0] == answered[1]


async def again(
    session: aiohttp.ClientSession, base: str, request_bytes: Received
) -> tuple[int, dict[str, str], bytes]:
    """Status, fields and bytes of the answer to the same request once more."""
    fields = {"Content-Type": request_bytes.header("content-type") or ""} if request_bytes.body else {}
    async with session.request(
        request_bytes.line.split(" ")[0], base + request_bytes.target, data=request_bytes.body or None, headers=fields
    ) as actual:
        saved = {name.lower(): value for name, value in actual.headers.items()}
        saved = {name: value for name, value in saved.items() if name not in OURS and not name.startswith("x-sidecar-")}
        return actual.status, saved, await actual.read()


ATTACKS: dict[str, Callable[[Any], Any]] = {
    "chat": lambda c: c.chat.completions.create(model="m", messages=EVIL),
    "chat stream": lambda c: c.chat.completions.create(model="m", messages=EVIL, stream=True),
    "responses": lambda c: c.responses.create(model="m", input=ATTACK),
    "responses stream": lambda c: c.responses.create(model="m", input=ATTACK, stream=True),
    "embeddings": lambda c: c.embeddings.create(model="m", input=ATTACK),
    "tool": lambda c: c.chat.completions.create(
        model="m", messages=BENIGN, tools=[TOOL | {"function": TOOL["function"] | {"description": ATTACK}}]
    ),
    "transcription": lambda c: c.audio.transcriptions.create(model="m", file=("a.wav", b"\x00\xff"), prompt=ATTACK),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_block_is_one_bad_request_error_after_one_attempt(upstream: Recording, kind: str, name: str) -> None:
    """`code == "content_filter"`; the SDK does not try again, and the upstream saw nothing."""
    async with run_proxy(upstream.url) as endpoint:
        with pytest.raises(openai.BadRequestError) as caught:
            await run(kind, ATTACKS[name], endpoint.url)
        assert len(endpoint.scanner.scanned) == 1
    assert (caught.value.code, caught.value.type) == ("content_filter", "invalid_request_error")
    assert caught.value.param
    assert caught.value.body["sidecar"]["threats"] == ["prompt_injection"]
    assert upstream.connections == 0


@pytest.mark.parametrize("name", ["chat", "chat stream", "responses", "responses stream"])
async def test_a_refusal_is_an_answer_after_one_attempt(upstream: Recording, kind: str, name: str) -> None:
    """`block.style: refusal`: the SDK returns an object that says why it ends."""
    async with run_proxy(upstream.url, block={"style": "refusal", "message": "Not this."}) as endpoint:
        actual = await run(kind, ATTACKS[name], endpoint.url)
        assert len(endpoint.scanner.scanned) == 1
    assert upstream.connections == 0
    if name == "chat":
        assert actual["choices"][0]["message"]["content"].startswith("Not this: ")
        assert actual["choices"][0]["finish_reason"] == "content_filter"
    elif name == "chat stream":
        assert "".join(event["choices"][0]["delta"]["content"] or "" for event in actual).startswith("Not this: ")
        assert actual[-1]["choices"][0]["finish_reason"] == "content_filter"
    else:
        last = actual if name == "responses" else actual[-1]["response"]
        assert (last["status"], last["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
        assert last["output"][0]["content"][0]["text"].startswith("Not this: ")


async def test_a_scanner_that_is_down_is_an_error_that_the_sdk_tries_again(upstream: Recording, kind: str) -> None:
    """503 with `Retry-After`: trying again can help here, and nothing is forwarded meanwhile."""
    async with run_proxy(upstream.url) as endpoint:
        endpoint.scanner.cause = "deadline"
        with pytest.raises(openai.InternalServerError) as caught:
            await run(kind, lambda c: CALLS["chat"](c.with_options(max_retries=1)), endpoint.url)
        assert len(endpoint.scanner.scanned) == 2
    assert (caught.value.status_code, caught.value.code) == (503, "scanner_unavailable")
    assert upstream.connections == 0


async def test_a_stream_that_is_cut_raises(kind: str) -> None:
    """The SDK never takes half an answer for a whole one."""
    parts = [b'data: {"id":"1","choices":[]}\n\n', b'data: {"id":']
    async with recording(stream(parts, pause=0.02, end="cut")) as upstream, run_proxy(upstream.url) as endpoint:
        with pytest.raises(openai.APIError, match="broke off"):
            await run(kind, CALLS["chat stream"], endpoint.url)


async def test_a_body_that_is_cut_raises(kind: str) -> None:
    """The same without a stream."""
    cut = raw(head("200 OK", "application/json", "Content-Length: 100") + b'{"id": ')
    async with recording(cut) as upstream, run_proxy(upstream.url) as endpoint:
        with pytest.raises(openai.APIConnectionError):
            await run(kind, lambda c: CALLS["chat"](c.with_options(max_retries=0)), endpoint.url)


async def test_an_upstream_that_is_silent_is_asked_once(kind: str) -> None:
    """504: it may be at work, and be paid for it; the SDK, which tries errors of a server again, does not."""

    async def silent(_received: Received, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    late: Any = lambda c: CALLS["chat"](c.with_options(default_headers={"x-stainless-timeout": "0.1"}))  # noqa: E731
    async with recording(silent) as upstream, run_proxy(upstream.url, upstream={"first_byte_timeout": 0.3}) as endpoint:
        with pytest.raises(openai.InternalServerError) as caught:
            await run(kind, late, endpoint.url)
    assert (caught.value.status_code, len(upstream.requests)) == (504, 1)


LARGE = "A" * 3 * 2**20
PICTURES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "images": (
        lambda c: c.images.generate(model="m", prompt="A red house", stream=True, partial_images=1),
        {"type": "image_generation.completed", "b64_json": LARGE},
    ),
    "chat": (
        CALLS["chat stream"],
        {"id": "1", "choices": [{"index": 0, "delta": {"images": [{"image_url": {"url": LARGE}}]}}]},
    ),
}


@pytest.mark.parametrize("responses", ["off", "block"])
@pytest.mark.parametrize("name", PICTURES)
async def test_a_picture_in_an_event_of_a_stream_arrives(kind: str, name: str, responses: str) -> None:
    """Three megabytes in one event, as pictures of 1024 pixels are."""
    call, large = PICTURES[name]
    small = large | {"type": "image_generation.partial_image", "b64_json": "AAAA"}
    parts = [f"data: {json.dumps(event)}\n\n".encode() for event in (small, large)]
    async with recording(stream(parts)) as upstream:
        direct = await run(kind, call, f"{upstream.url}/v1")
        async with run_proxy(upstream.url, responses=responses, upstream=PATIENT) as endpoint:
            assert await run(kind, call, endpoint.url) == direct
    assert LARGE in json.dumps(direct)


async def test_a_redirect_of_the_upstream_leads_back_to_the_sidecar(kind: str) -> None:
    """The SDK follows it with the same body, which is scanned again; the upstream is not asked past the sidecar."""

    async def script(received: Received, writer: asyncio.StreamWriter) -> None:
        if received.target.endswith("?again"):
            return await answer(received, writer)
        there = f"Location: {upstream.url}/v1/chat/completions?again"
        return await respond(b"{}", "307 Elsewhere", "application/json", there)(received, writer)

    async with recording(script) as upstream, run_proxy(upstream.url) as endpoint:
        assert (await run(kind, CALLS["chat"], endpoint.url))["choices"][0]["message"]["content"] == "Paris."
        assert (len(endpoint.scanner.scanned), len(upstream.requests)) == (2, 2)


ELSEWHERE = ("azure", "/openai/v1", "/v1beta/openai", "")


@pytest.mark.parametrize("place", ELSEWHERE)
@pytest.mark.parametrize("name", ["chat", "chat stream", "responses", "embeddings", "models"])
async def test_the_api_is_served_where_azure_gemini_and_others_have_it(place: str, name: str) -> None:
    """By default: Azure's own client of the SDK, its path for the plain client, Gemini's, and none."""

    def client(url: str) -> AsyncOpenAI:
        if place == "azure":
            return AsyncAzureOpenAI(azure_endpoint=url, api_key="sk-client", api_version="2025-04-01-preview")
        return AsyncOpenAI(base_url=url + place, api_key="sk-client")

    async def script(received: Received, writer: asyncio.StreamWriter) -> None:
        plain = re.sub(
            rb" (/openai/deployments/m|/openai/v1|/openai|/v1beta/openai)?/", b" /v1/", received.head, count=1
        )
        await answer(Received(plain, received.body), writer)

    async def asked(url: str) -> Any:
        async with client(url) as item:
            endpoint = await CALLS[name](item)
            return (
                [plain(event) async for event in endpoint]
                if isinstance(endpoint, openai.AsyncStream)
                else plain(endpoint)
            )

    async with recording(script) as upstream, run_proxy(upstream.url) as endpoint:
        direct = await asked(upstream.url)
        assert await asked(endpoint.url.removesuffix("/v1")) == direct
        assert len(endpoint.scanner.scanned) == (name != "models")
    assert upstream.requests[0].line == upstream.requests[1].line


async def test_the_headers_of_the_verdict_can_be_read(upstream: Recording) -> None:
    """With the SDK's own means."""
    async with run_proxy(upstream.url) as endpoint, AsyncOpenAI(api_key="sk-client", base_url=endpoint.url) as client:
        actual = await client.chat.completions.with_raw_response.create(model="m", messages=BENIGN)
    assert actual.headers["x-sidecar-action"] == "allow"
    assert (actual.headers["x-request-id"], actual.headers["openai-version"]) == ("req_1", "2020-10-01")


@pytest.mark.parametrize("name", [name for name in CALLS if name not in UNLIKE_ECHO])
async def test_the_built_in_echo_speaks_to_the_sdk(kind: str, name: str) -> None:
    """A newcomer's first request works without any upstream."""
    async with run_proxy("echo://") as endpoint:
        actual = await run(kind, CALLS[name], endpoint.url)
    assert actual
