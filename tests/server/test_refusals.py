"""Tests `sidecar.server.refusals`: the models of the official SDK accept refusals, complete and as streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from sidecar.server.refusals import refusal

TEXT = 'No "thanks".\n'


def refusal_json(operation: str, *, stream: bool) -> Any:
    """A refusal: its JSON, or the JSON of its events."""
    answer = refusal(operation, TEXT, decision_id="dec_1", model="m", stream=stream)
    assert answer is not None
    assert answer.status == 200
    if not stream:
        return json.loads(answer.body)
    lines = answer.body.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def test_a_chat_says_it_and_ends_for_its_content() -> None:
    """A chat refusal is valid as one message and in chunks."""
    completion = ChatCompletion.model_validate(refusal_json("/chat/completions", stream=False), strict=True)
    chunks = [
        ChatCompletionChunk.model_validate(e, strict=True) for e in refusal_json("/chat/completions", stream=True)
    ]
    assert (completion.choices[0].message.content, completion.choices[0].finish_reason) == (TEXT, "content_filter")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert chunks[-1].choices[0].finish_reason == "content_filter"


def test_an_old_completion_says_it_too() -> None:
    """A completion refusal is valid, and one chunk as a stream."""
    for body in (refusal_json("/completions", stream=False), *refusal_json("/completions", stream=True)):
        choice = Completion.model_validate(body, strict=True).choices[0]
        assert (choice.text, choice.finish_reason) == (TEXT, "content_filter")


def test_a_response_is_incomplete_for_its_content() -> None:
    """A response refusal is incomplete; its events are numbered and end with the same object."""
    response = Response.model_validate(refusal_json("/responses", stream=False))
    events = refusal_json("/responses", stream=True)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "content_filter")
    assert response.output_text == TEXT
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert Response.model_validate(events[-1]["response"]).output_text == TEXT


def test_a_message_stops_with_a_refusal() -> None:
    """A message refusal has the stop reason `refusal` of the Messages API."""
    message, events = refusal_json("/messages", stream=False), refusal_json("/messages", stream=True)
    assert (message["content"][0]["text"], message["stop_reason"]) == (TEXT, "refusal")
    assert "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta") == TEXT
    assert [e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"] == ["refusal"]
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")


@pytest.mark.parametrize("operation", ["/chat/completions", "/completions"])
def test_streams_of_the_older_kind_end_with_done(operation: str) -> None:
    """Clients of these APIs wait for `[DONE]`."""
    answer = refusal(operation, TEXT, decision_id="dec_1", model="m", stream=True)
    assert answer is not None
    assert answer.body.endswith(b"\n\ndata: [DONE]\n\n")


def test_operations_without_words_have_no_refusal() -> None:
    """Without text there is no refusal, and the caller returns an error instead."""
    assert refusal("/embeddings", TEXT, decision_id="dec_1", model="m", stream=False) is None
