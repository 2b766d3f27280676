"""Cohere's official SDK as a black box at `/v2/chat`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import cohere
import httpx
import pytest
from cohere.core.api_error import ApiError
from inline_proxy import ATTACK, InlineProxy, run_proxy
from recording import Received, Recording, recording, respond, stream
from speech import LEAK, SYSTEM, tokens

PATIENT = {"upstream": {"first_byte_timeout": 20.0, "idle_timeout": 20.0}}
BENIGN = [{"role": "user", "content": "What is the capital of France?"}]
EVIL = [{"role": "user", "content": ATTACK}]
FUNCTION = {"name": "weather", "description": "Looks it up.", "parameters": {"type": "object", "properties": {}}}
TOOLS = [{"type": "function", "function": FUNCTION}]
CALLED = [{"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
RESULT = [
    *BENIGN,
    {"role": "assistant", "tool_calls": CALLED},
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "document", "document": {"data": ATTACK}}]},
]
USAGE = {"tokens": {"input_tokens": 1, "output_tokens": 1}}
HOP = {"host", "connection", "content-length"}
Call = Callable[[cohere.ClientV2], Any]

CALLS: dict[str, Call] = {
    "chat": lambda c: c.chat(model="m", messages=BENIGN, tools=TOOLS, documents=["Paris is a town."]),
    "stream": lambda c: c.chat_stream(model="m", messages=BENIGN),
    "embed": lambda c: c.embed(model="m", texts=["one"], input_type="search_query", embedding_types=["float"]),
    "rerank": lambda c: c.rerank(model="m", query="Where?", documents=["Here.", "There."]),
}
ATTACKS: dict[str, Call] = {
    "chat": lambda c: c.chat(model="m", messages=EVIL),
    "stream": lambda c: c.chat_stream(model="m", messages=EVIL),
    "system": lambda c: c.chat(model="m", messages=[{"role": "system", "content": ATTACK}, *BENIGN]),
    "result": lambda c: c.chat(model="m", messages=RESULT),
    "document": lambda c: c.chat(model="m", messages=BENIGN, documents=[{"id": "d", "data": {"Title": ATTACK}}]),
    "rerank": lambda c: c.rerank(model="m", query="Where?", documents=[ATTACK]),
}


def message(text: str) -> dict[str, Any]:
    """A complete response."""
    said = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"id": "r-1", "message": said, "finish_reason": "COMPLETE", "usage": USAGE}


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def events(text: str) -> list[bytes]:
    """A stream as Cohere sends it."""
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    deltas = [{"message": {"content": {"text": part}}} for part in tokens(text)]
    return [
        _event("message-start", id="r-1", delta={"message": empty}),
        _event("content-start", index=0, delta={"message": {"content": {"type": "text", "text": ""}}}),
        *(_event("content-delta", index=0, delta=delta) for delta in deltas),
        _event("content-end", index=0),
        _event("message-end", id="r-1", delta={"finish_reason": "COMPLETE", "usage": USAGE}),
        b"data: [DONE]\n\n",
    ]


async def answer(received: Received, writer: Any) -> None:
    """An upstream that answers like Cohere."""
    if received.json().get("stream"):
        await stream(events("Paris, of course."))(received, writer)
        return
    bodies: dict[str, Any] = {
        "/v2/embed": {"id": "e", "embeddings": {"float": [[0.5]]}, "texts": ["one"]},
        "/v2/rerank": {"id": "e", "results": [{"index": 0, "relevance_score": 0.5}]},
    }
    await respond(json.dumps(bodies.get(received.target, message("Paris."))).encode())(received, writer)


def base(endpoint: InlineProxy | Recording) -> str:
    """The SDK puts the version in front of its paths itself."""
    return endpoint.url.removesuffix("/v1")


async def run(call: Call, url: str) -> Any:
    """One call; a stream is read to its end."""

    def blocking() -> Any:
        with httpx.Client(timeout=30) as http:
            found = call(cohere.ClientV2(api_key="co-client", base_url=url, client_name="test", httpx_client=http))
            return found.model_dump() if hasattr(found, "model_dump") else [each.model_dump() for each in found]

    return await asyncio.to_thread(blocking)


def wire(recorder: Recording) -> list[tuple[str, list[tuple[str, str]], bytes]]:
    """Request lines, fields and bodies without what belongs to the connection."""
    return [(r.line, sorted(field for field in r.fields if field[0] not in HOP), r.body) for r in recorder.requests]


@pytest.fixture
async def upstream() -> AsyncIterator[Recording]:
    """An upstream that answers like Cohere."""
    async with recording(answer) as endpoint:
        yield endpoint


@pytest.mark.parametrize("name", CALLS)
async def test_the_sdk_gets_the_same_through_the_proxy_as_directly(upstream: Recording, name: str) -> None:
    """The same objects, and the same bytes and fields at the upstream."""
    direct = await run(CALLS[name], upstream.url)
    observed = wire(upstream)
    upstream.requests.clear()
    async with run_proxy(upstream.url, **PATIENT) as endpoint:
        assert await run(CALLS[name], base(endpoint)) == direct
    assert wire(upstream) == observed
    assert len(observed) == 1


async def test_a_scanned_stream_is_the_same() -> None:
    """With `responses: block` every event still arrives as it was sent."""
    async with recording(stream(events("Paris, of course."))) as upstream:
        direct = await run(CALLS["stream"], upstream.url)
        async with run_proxy(upstream.url, responses="block", **PATIENT) as endpoint:
            assert await run(CALLS["stream"], base(endpoint)) == direct


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_block_is_one_bad_request_error_after_one_attempt(upstream: Recording, name: str) -> None:
    """With the message in its field; the SDK does not try again, and the upstream saw nothing."""
    async with run_proxy(upstream.url) as endpoint:
        with pytest.raises(cohere.BadRequestError) as caught:
            await run(ATTACKS[name], base(endpoint))
        assert len(endpoint.scanner.scanned) == 1
    body: Any = caught.value.body
    assert body["message"].startswith("The prompt was refused")
    assert body["sidecar"]["threats"] == ["prompt_injection"]
    assert upstream.connections == 0


@pytest.mark.parametrize("name", ["chat", "stream"])
async def test_a_refusal_is_an_answer_after_one_attempt(upstream: Recording, name: str) -> None:
    """`block.style: refusal`: a message, or the events of one, that ends with `ERROR`."""
    async with run_proxy(upstream.url, block={"style": "refusal", "message": "Not this."}) as endpoint:
        found = json.dumps(await run(ATTACKS[name], base(endpoint)))
    assert "Not this:" in found
    assert '"ERROR"' in found
    assert upstream.connections == 0


@pytest.mark.parametrize("style", ["error", "refusal"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_leak_in_an_answer_is_withheld_after_one_attempt(style: str, streamed: bool) -> None:
    """`responses: block`: an error, in mid-stream, too; or an answer that ends with `ERROR`."""
    script = stream(events(LEAK)) if streamed else respond(json.dumps(message(LEAK)).encode())
    messages = [{"role": "system", "content": SYSTEM}, *BENIGN]
    ask: Call = lambda c: (c.chat_stream if streamed else c.chat)(model="m", messages=messages)  # noqa: E731
    terms: dict[str, Any] = {"responses": "block", "block": {"style": style}} | PATIENT
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        if style == "error":
            with pytest.raises(Exception) as caught:  # noqa: PT011 - in mid-stream it is that of the HTTP library
                await run(ask, base(endpoint))
            assert streamed or isinstance(caught.value, ApiError)
        else:
            found = json.dumps(await run(ask, base(endpoint)))
            assert "flood" not in found
            assert '"ERROR"' in found
    assert len(upstream.requests) == 1


async def test_personal_data_is_replaced() -> None:
    """`pii: redact`, in documents, too; the names that a document has itself stay."""
    mail = "jon.frey@seepost.ch"
    async with recording(respond(json.dumps(message("Yes.")).encode())) as upstream:
        async with run_proxy(upstream.url, pii="redact", **PATIENT) as endpoint:
            ask: Call = lambda c: c.chat(model="m", messages=BENIGN, documents=[{"data": {"Title": f"To {mail}"}}])  # noqa: E731
            await run(ask, base(endpoint))
        assert upstream.requests[0].json()["documents"] == [{"data": {"Title": "To <EMAIL_1>"}}]


async def test_a_scanner_that_is_down_is_a_service_unavailable_error(upstream: Recording) -> None:
    """503; nothing is forwarded meanwhile."""
    async with run_proxy(upstream.url) as endpoint:
        endpoint.scanner.cause = "deadline"
        options: Any = {"max_retries": 0}
        with pytest.raises(cohere.ServiceUnavailableError):
            await run(lambda c: c.chat(model="m", messages=BENIGN, request_options=options), base(endpoint))
    assert upstream.connections == 0
