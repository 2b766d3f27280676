"""Tests of which request gets which kind of response from the echo."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from multidict import CIMultiDict

from sidecar.upstream.echo import EchoUpstream
from sidecar.upstream.message import UpstreamRequest

CHAT = {"model": "m", "messages": [{"role": "user", "content": "one two"}, {"role": "assistant", "content": "no"}]}


async def ask(method: str, target: str, body: object = b"") -> tuple[int, str, bytes, int]:
    """Status, content type, body and number of chunks of one response."""
    sent = body if isinstance(body, bytes) or hasattr(body, "__aiter__") else json.dumps(body).encode()
    async with EchoUpstream().send(UpstreamRequest(method, target, CIMultiDict(), sent or None)) as answer:
        chunks = [chunk async for chunk in answer.chunks()]
        return answer.status, answer.headers["Content-Type"], b"".join(chunks), len(chunks)


async def test_the_last_user_message_is_repeated() -> None:
    """Whatever precedes the route or follows the question mark."""
    status, kind, body, _ = await ask("POST", "/openai/deployments/x/chat/completions?api-version=1", CHAT)
    assert (status, kind) == (200, "application/json")
    assert json.loads(body)["choices"][0]["message"]["content"] == "one two"


async def test_a_stream_comes_event_by_event() -> None:
    """Each token is a chunk of its own."""
    status, kind, body, chunks = await ask("POST", "/v1/chat/completions", CHAT | {"stream": True})
    assert (status, kind) == (200, "text/event-stream")
    assert (chunks, body.endswith(b"data: [DONE]\n\n")) == (5, True)


async def test_a_streamed_body_is_joined() -> None:
    """The proxy may forward a body it did not buffer."""

    async def pieces() -> AsyncIterator[bytes]:
        yield json.dumps(CHAT).encode()[:20]
        yield json.dumps(CHAT).encode()[20:]

    status, _, body, _ = await ask("POST", "/v1/chat/completions", pieces())
    assert (status, b"one two" in body) == (200, True)


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense"])
async def test_a_body_that_is_no_json_object_is_rejected(body: bytes) -> None:
    """As a real upstream would."""
    status, _, answer, _ = await ask("POST", "/v1/chat/completions", body)
    assert (status, json.loads(answer)["error"]["code"]) == (400, "invalid_json")


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/v1/nothing")])
async def test_other_routes_are_404(method: str, path: str) -> None:
    """In OpenAI's envelope."""
    status, _, answer, _ = await ask(method, path)
    assert (status, json.loads(answer)["error"]["code"]) == (404, "not_found")


async def test_models_are_listed() -> None:
    """Clients request them first."""
    status, _, body, _ = await ask("GET", "/v1/models")
    assert (status, json.loads(body)["data"][0]["id"]) == (200, "echo")
