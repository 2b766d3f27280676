"""Tests of the echo's shapes: the official SDK's models parse each of them strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from sidecar.upstream import echo_shapes as shapes

TEXT = "Hello  there,\nwörld 🌍 "
CHAT = {"model": "m", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": TEXT}]}


def events(stream: Iterator[bytes]) -> list[dict[str, Any]]:
    """The JSON of every event except the end marker."""
    payloads = [line[6:] for part in stream for line in part.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(item) for item in payloads if item != "[DONE]"]


@pytest.mark.parametrize("text", ["", " ", "one", TEXT, "\n\n a\tb  "])
def test_tokens_joined_are_the_text(text: str) -> None:
    """Tokenizing loses nothing."""
    assert "".join(shapes.tokens(text)) == text


def test_a_chat_is_the_same_complete_and_streamed() -> None:
    """Both parse, and have the same text."""
    complete = ChatCompletion.model_validate(shapes.chat(CHAT), strict=True)
    chunks = [ChatCompletionChunk.model_validate(event, strict=True) for event in events(shapes.chat_events(CHAT))]
    assert complete.choices[0].message.content == TEXT
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert [chunk.choices[0].finish_reason for chunk in chunks][-2:] == [None, "stop"]


def test_usage_comes_last_when_requested() -> None:
    """Without choices, as in the API."""
    request = CHAT | {"stream_options": {"include_usage": True}}
    last = ChatCompletionChunk.model_validate(events(shapes.chat_events(request))[-1])
    assert (last.choices, last.usage.completion_tokens) == ([], len(shapes.tokens(TEXT)))


def test_parts_of_a_message_are_joined() -> None:
    """Media have no text."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "b"}]
    assert shapes.chat({"messages": [{"role": "user", "content": parts}]})["choices"][0]["message"]["content"] == "ab"


@pytest.mark.parametrize("messages", [None, [], "x", [None], [{"role": "user"}], [{"role": "user", "content": 1}]])
def test_a_body_without_text_gives_an_empty_response(messages: object) -> None:
    """No body makes the echo fail."""
    assert shapes.chat({"messages": messages})["choices"][0]["message"]["content"] == ""


def test_legacy_completions() -> None:
    """Complete and streamed."""
    complete = Completion.model_validate(shapes.completion({"prompt": TEXT}), strict=True)
    chunks = [event["choices"][0] for event in events(shapes.completion_events({"prompt": TEXT}))]
    assert complete.choices[0].text == TEXT == "".join(chunk["text"] for chunk in chunks)
    assert [chunk["finish_reason"] for chunk in chunks][-2:] == [None, "stop"]


@pytest.mark.parametrize("source", [TEXT, [{"role": "user", "content": [{"type": "input_text", "text": TEXT}]}]])
def test_responses(source: object) -> None:
    """Complete, and as numbered events that end with the complete response."""
    complete = Response.model_validate(shapes.response({"input": source, "model": "m"}))
    received = events(shapes.response_events({"input": source, "model": "m"}))
    assert complete.output_text == TEXT
    assert [event["sequence_number"] for event in received] == list(range(len(received)))
    assert "".join(event["delta"] for event in received if event["type"] == "response.output_text.delta") == TEXT
    assert Response.model_validate(received[-1]["response"]).output_text == TEXT


def test_messages() -> None:
    """Complete, and as events between start and stop."""
    received = events(shapes.message_events(CHAT))
    assert shapes.message(CHAT)["content"] == [{"type": "text", "text": TEXT}]
    assert "".join(event["delta"]["text"] for event in received if event["type"] == "content_block_delta") == TEXT
    assert (received[0]["type"], received[-1]["type"]) == ("message_start", "message_stop")


@pytest.mark.parametrize(("source", "count"), [("a", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1], [2]], 2)])
def test_embeddings_depend_on_the_input_alone(source: object, count: int) -> None:
    """The same text has the same vector; a list of token ids is one input."""
    first = CreateEmbeddingResponse.model_validate(shapes.embeddings({"input": source, "model": "m"}), strict=True)
    assert len(first.data) == count
    assert shapes.embeddings({"input": source}) == shapes.embeddings({"input": source})
    assert shapes.embeddings({"input": "a"}) != shapes.embeddings({"input": "b"})


def test_embeddings_have_the_requested_size() -> None:
    """Up to a maximum."""
    assert len(shapes.embeddings({"input": "a", "dimensions": 3})["data"][0]["embedding"]) == 3
    assert len(shapes.embeddings({"input": "a", "dimensions": 10**9})["data"][0]["embedding"]) == 4096
