"""The official Python SDK meets an answer that is looked at: the same objects, or one clear error after one attempt."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from inline_proxy import run_proxy
from openai import AsyncOpenAI
from recording import recording, respond, stream
from speech import LEAK, PLACES, PLAIN, SYSTEM, tokens

PATIENT = {"upstream": {"first_byte_timeout": 20.0, "idle_timeout": 20.0}}
BLOCK: dict[str, Any] = {"responses": "block"} | PATIENT
MAIL = "ann.archer@kestrel-ferry.com"
CHAT, RESPONSE = PLACES["chat"], PLACES["response"]


def messages(said: str = "Hello?") -> Any:
    """A conversation under the system prompt."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": said}]


def _client(url: str) -> AsyncOpenAI:
    """The SDK at the door."""
    return AsyncOpenAI(api_key="sk-client", base_url=url)


async def chat(url: str, *, streamed: bool, said: str = "Hello?") -> tuple[str, str | None]:
    """What the SDK says was answered, and why it ended."""
    async with _client(url) as client:
        endpoint: Any = await client.chat.completions.create(model="m", messages=messages(said), stream=streamed)
        if not streamed:
            return endpoint.choices[0].message.content, endpoint.choices[0].finish_reason
        text, reason = "", None
        async for event in endpoint:
            text += event.choices[0].delta.content or ""
            reason = event.choices[0].finish_reason or reason
        return text, reason


async def test_an_ordinary_answer_is_the_same() -> None:
    """Whole and streamed."""
    async with (
        recording(respond(json.dumps(CHAT.response(PLAIN)).encode())) as upstream,
        run_proxy(upstream.url, **BLOCK) as endpoint,
    ):
        assert await chat(endpoint.url, streamed=False) == (PLAIN, "stop")
        upstream.script = stream(list(CHAT.events(tokens(PLAIN))))
        assert await chat(endpoint.url, streamed=True) == (PLAIN, "stop")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_leak_raises_once(streamed: bool) -> None:
    """`code == "content_filter"`, and the upstream is not asked again."""
    script = stream(list(CHAT.events(tokens(LEAK)))) if streamed else respond(json.dumps(CHAT.response(LEAK)).encode())
    async with recording(script) as upstream, run_proxy(upstream.url, **BLOCK) as endpoint:
        with pytest.raises(openai.APIError, match="withheld") as caught:
            await chat(endpoint.url, streamed=streamed)
    assert (caught.value.code, len(upstream.requests)) == ("content_filter", 1)
    assert isinstance(caught.value, openai.BadRequestError) is not streamed


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_refusal_ends_with_a_finish_reason(streamed: bool) -> None:
    """`block.style: refusal`: no error, and no word of the leak."""
    text = f"{PLAIN} {PLAIN} {LEAK}"
    script = stream(list(CHAT.events(tokens(text)))) if streamed else respond(json.dumps(CHAT.response(text)).encode())
    terms = BLOCK | {"block": {"style": "refusal"}}
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        received, reason = await chat(endpoint.url, streamed=streamed)
    assert (reason, "flood" in received, len(upstream.requests)) == ("content_filter", False, 1)
    assert received.startswith(PLAIN if streamed else "The answer was withheld")


async def test_a_response_that_is_withheld_is_incomplete() -> None:
    """The Responses API says so itself; the SDK's stream helper accepts the last event."""
    script = stream(list(RESPONSE.events(tokens(f"{PLAIN} {PLAIN} {LEAK}"))))
    terms = BLOCK | {"block": {"style": "refusal"}}
    async with (
        recording(script) as upstream,
        run_proxy(upstream.url, **terms) as endpoint,
        _client(endpoint.url) as client,
    ):
        question = await client.responses.create(model="m", input="Hello?", instructions=SYSTEM, stream=True)
        events = [event async for event in question]
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.incomplete_details.reason == "content_filter"
    assert [event.sequence_number for event in events] == list(range(len(events)))


@pytest.mark.parametrize("streamed", [False, True])
async def test_personal_data_goes_out_and_comes_back(streamed: bool) -> None:
    """`pii: redact` with `answers.restore`: the upstream sees names alone, the SDK the values."""
    text = "I wrote to <EMAIL_1>; <EMAIL_1> will answer."
    script = (
        stream(list(CHAT.events(tokens(text, 3)))) if streamed else respond(json.dumps(CHAT.response(text)).encode())
    )
    terms = {"pii": "redact", "answers": {"restore": True}} | PATIENT
    async with recording(script) as upstream, run_proxy(upstream.url, **terms) as endpoint:
        received = await chat(endpoint.url, streamed=streamed, said=f"Mail {MAIL}, please.")
    assert received == (text.replace("<EMAIL_1>", MAIL), "stop")
    assert upstream.requests[0].json()["messages"] == messages("Mail <EMAIL_1>, please.")
