"""The official Anthropic SDK as a black box at `/v1/messages`, as OpenAI's in its own file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import pytest
from answers import answer
from anthropic import Anthropic, AsyncAnthropic
from inline_proxy import ATTACK, InlineProxy, run_proxy
from pydantic import BaseModel
from recording import Recording, recording, respond, stream
from speech import LEAK, PLACES, SYSTEM, tokens

BENIGN = [{"role": "user", "content": "What is the capital of France?"}]
EVIL = [{"role": "user", "content": [{"type": "text", "text": ATTACK}]}]
TOOL = {"name": "weather", "description": "Looks it up.", "input_schema": {"type": "object", "properties": {}}}
HOP = {"host", "connection", "content-length", "x-stainless-read-timeout"}
MESSAGE = PLACES["message"]
PATIENT = {"upstream": {"first_byte_timeout": 20.0, "idle_timeout": 20.0}}
ASK: dict[str, Any] = {"model": "m", "max_tokens": 99}
Call = Callable[[Any], Any]

CALLS: dict[str, Call] = {
    "message": lambda c: c.messages.create(**ASK, messages=BENIGN, system="Be brief.", extra_body={"x_mine": [1.0]}),
    "stream": lambda c: c.messages.create(**ASK, messages=BENIGN, stream=True),
    "tools": lambda c: c.messages.create(**ASK, messages=BENIGN, tools=[TOOL]),
    "count": lambda c: c.messages.count_tokens(model="m", messages=BENIGN),
    "beta": lambda c: c.beta.messages.create(**ASK, messages=BENIGN, betas=["a-2026-01-01"]),
    "beta count": lambda c: c.beta.messages.count_tokens(model="m", messages=BENIGN, extra_query={"beta": "true"}),
    "models": lambda c: c.models.list(),
    "model": lambda c: c.models.retrieve("org/my model"),
}
ATTACKS: dict[str, Call] = {
    "message": lambda c: c.messages.create(**ASK, messages=EVIL),
    "stream": lambda c: c.messages.create(**ASK, messages=EVIL, stream=True),
    "tools": lambda c: c.messages.create(**ASK, messages=BENIGN, tools=[TOOL | {"description": ATTACK}]),
}


def plain(endpoint: Any) -> Any:
    """An object of the SDK as plain data."""
    return endpoint.model_dump(warnings=False) if isinstance(endpoint, BaseModel) else endpoint


def run_sync(call: Call, url: str) -> Any:
    """One call with the synchronous client; a stream is read to its end."""
    with Anthropic(api_key="sk-client", base_url=url) as client:
        endpoint = call(client)
        return [plain(event) for event in endpoint] if isinstance(endpoint, anthropic.Stream) else plain(endpoint)


async def run_async(call: Call, url: str) -> Any:
    """One call with the asynchronous client."""
    async with AsyncAnthropic(api_key="sk-client", base_url=url) as client:
        endpoint = await call(client)
        return (
            [plain(event) async for event in endpoint]
            if isinstance(endpoint, anthropic.AsyncStream)
            else plain(endpoint)
        )


async def run(kind: str, call: Call, url: str) -> Any:
    """One call with either client."""
    return await run_async(call, url) if kind == "async" else await asyncio.to_thread(run_sync, call, url)


def base(endpoint: InlineProxy) -> str:
    """The SDK puts `/v1` in front of its paths itself."""
    return endpoint.url.removesuffix("/v1")


@pytest.fixture(scope="module", params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Both clients of the SDK."""
    return str(request.param)


@pytest.fixture
async def upstream() -> AsyncIterator[Recording]:
    """An upstream that answers like Anthropic."""
    async with recording(answer) as endpoint:
        yield endpoint


def wire(recorder: Recording) -> list[tuple[str, list[tuple[str, str]], bytes]]:
    """Request lines, fields and bodies without what belongs to the connection."""
    return [(r.line, sorted(field for field in r.fields if field[0] not in HOP), r.body) for r in recorder.requests]


@pytest.mark.parametrize("name", CALLS)
async def test_the_sdk_gets_the_same_through_the_door_as_directly(upstream: Recording, kind: str, name: str) -> None:
    """The same objects, unknown fields included, and the same bytes and fields at the upstream."""
    direct = await run(kind, CALLS[name], upstream.url)
    observed = wire(upstream)
    upstream.requests.clear()
    async with run_proxy(upstream.url) as endpoint:
        assert await run(kind, CALLS[name], base(endpoint)) == direct
    assert wire(upstream) == observed
    assert len(observed) == 1


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_block_is_one_bad_request_error_after_one_attempt(upstream: Recording, kind: str, name: str) -> None:
    """In the envelope of that API; the SDK does not try again, and the upstream saw nothing."""
    async with run_proxy(upstream.url) as endpoint:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await run(kind, ATTACKS[name], base(endpoint))
        assert len(endpoint.scanner.scanned) == 1
    body: Any = caught.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert body["error"]["sidecar"]["threats"] == ["prompt_injection"]
    assert upstream.connections == 0


@pytest.mark.parametrize("name", ["message", "stream"])
async def test_a_refusal_is_an_answer_after_one_attempt(upstream: Recording, kind: str, name: str) -> None:
    """`block.style: refusal`: an object whose `stop_reason` says why it ends."""
    async with run_proxy(upstream.url, block={"style": "refusal", "message": "Not this."}) as endpoint:
        received = await run(kind, ATTACKS[name], base(endpoint))
        assert len(endpoint.scanner.scanned) == 1
    assert upstream.connections == 0
    if name == "message":
        assert (received["content"][0]["text"][:9], received["stop_reason"]) == ("Not this:", "refusal")
    else:
        texts = [event["delta"]["text"] for event in received if event["type"] == "content_block_delta"]
        reasons = [event["delta"]["stop_reason"] for event in received if event["type"] == "message_delta"]
        assert ("".join(texts)[:9], reasons) == ("Not this:", ["refusal"])


@pytest.mark.parametrize("style", ["error", "refusal"])
async def test_the_stream_helper_takes_either_ending(upstream: Recording, style: str) -> None:
    """`messages.stream` puts the events together; a withheld one is an error, or ends with `refusal`."""
    async with run_proxy(upstream.url, block={"style": style}, **PATIENT) as endpoint:
        async with AsyncAnthropic(api_key="sk-client", base_url=base(endpoint)) as client:
            if style == "error":
                with pytest.raises(anthropic.BadRequestError):
                    await client.messages.stream(**ASK, messages=EVIL).__aenter__()
            else:
                async with client.messages.stream(**ASK, messages=EVIL) as events:
                    assert (await events.get_final_message()).stop_reason == "refusal"
            async with client.messages.stream(**ASK, messages=BENIGN) as events:
                assert await events.get_final_text() == "What is the capital of France?"
        assert len(endpoint.scanner.scanned) == 2


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("style", ["error", "refusal"])
async def test_a_leak_in_an_answer_is_withheld_after_one_attempt(style: str, streamed: bool) -> None:
    """`responses: block`: an error of the SDK, in mid-stream, too; or an answer that ends with `refusal`."""
    script = (
        stream(list(MESSAGE.events(tokens(LEAK)))) if streamed else respond(json.dumps(MESSAGE.response(LEAK)).encode())
    )
    call: Call = lambda c: c.messages.create(**ASK, messages=BENIGN, system=SYSTEM, stream=streamed)  # noqa: E731
    terms: dict[str, Any] = {"responses": "block", "block": {"style": style}} | PATIENT
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        if style == "error":
            with pytest.raises(anthropic.APIError, match="withheld"):
                await run_async(call, base(endpoint))
        else:
            received = await run_async(call, base(endpoint))
            assert "flood" not in json.dumps(received)
            assert '"refusal"' in json.dumps(received)
    assert len(upstream.requests) == 1


async def test_a_scanner_that_is_down_is_an_error_that_the_sdk_tries_again(upstream: Recording, kind: str) -> None:
    """503 in that API's envelope, with `Retry-After`; nothing is forwarded meanwhile."""
    async with run_proxy(upstream.url) as endpoint:
        endpoint.scanner.cause = "deadline"
        with pytest.raises(anthropic.InternalServerError) as caught:
            await run(kind, lambda c: CALLS["message"](c.with_options(max_retries=1)), base(endpoint))
        assert len(endpoint.scanner.scanned) == 2
    assert caught.value.status_code == 503
    assert upstream.connections == 0


async def test_the_built_in_echo_speaks_to_the_sdk(kind: str) -> None:
    """A newcomer's first request works without any upstream."""
    async with run_proxy("echo://") as endpoint:
        for name in ("message", "stream"):
            assert await run(kind, CALLS[name], base(endpoint))
