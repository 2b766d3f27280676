"""Twin of sidecar/server/refusals.py: refusals that the official SDK's models read, whole and as streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from sidecar.server.refusals import refusal

TEXT = 'No "thanks".\n'


def made(operation: str, *, stream: bool) -> Any:
    """A refusal: its JSON, or the JSON of its events."""
    answer = refusal(operation, TEXT, decision_id="dec_1", model="m", stream=stream)
    assert answer is not None
    assert answer.status == 200
    if not stream:
        return json.loads(answer.body)
    lines = answer.body.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def test_a_chat_says_it_and_ends_for_its_content() -> None:
    """In one message or in chunks."""
    whole = ChatCompletion.model_validate(made("/chat/completions", stream=False), strict=True)
    chunks = [ChatCompletionChunk.model_validate(e, strict=True) for e in made("/chat/completions", stream=True)]
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (TEXT, "content_filter")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert chunks[-1].choices[0].finish_reason == "content_filter"


def test_an_old_completion_says_it_too() -> None:
    """In one chunk."""
    for body in (made("/completions", stream=False), *made("/completions", stream=True)):
        choice = Completion.model_validate(body, strict=True).choices[0]
        assert (choice.text, choice.finish_reason) == (TEXT, "content_filter")


def test_a_response_is_incomplete_for_its_content() -> None:
    """The events are numbered and end with the same object."""
    whole = Response.model_validate(made("/responses", stream=False))
    events = made("/responses", stream=True)
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "content_filter")
    assert whole.output_text == TEXT
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert Response.model_validate(events[-1]["response"]).output_text == TEXT


def test_a_message_stops_with_a_refusal() -> None:
    """As the Messages API names it."""
    whole, events = made("/messages", stream=False), made("/messages", stream=True)
    assert (whole["content"][0]["text"], whole["stop_reason"]) == (TEXT, "refusal")
    assert "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta") == TEXT
    assert [e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"] == ["refusal"]
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")


@pytest.mark.parametrize("operation", ["/chat/completions", "/completions"])
def test_streams_of_the_older_kind_end_with_done(operation: str) -> None:
    """Clients wait for it."""
    answer = refusal(operation, TEXT, decision_id="dec_1", model="m", stream=True)
    assert answer is not None
    assert answer.body.endswith(b"\n\ndata: [DONE]\n\n")


def test_operations_without_words_have_no_refusal() -> None:
    """The caller answers with an error then."""
    assert refusal("/embeddings", TEXT, decision_id="dec_1", model="m", stream=False) is None
