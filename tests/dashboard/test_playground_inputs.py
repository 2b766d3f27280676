"""What can be entered on the playground."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.config import Settings
from sidecar.dashboard.playground_inputs import (
    MAX_BATCH,
    batch,
    chat_request,
    conversation,
    conversation_words,
    parsed,
    prompt_request,
)
from sidecar.errors import RequestError
from sidecar.types import Source


def test_a_batch_is_one_text_a_line() -> None:
    """Empty lines are no texts."""
    assert batch(" one\n\n two \n") == ["one", "two"]
    for text in ("", "\n \n", "x\n" * (MAX_BATCH + 1)):
        with pytest.raises(RequestError):
            batch(text)


def test_a_transcript_has_a_turn_for_each_author() -> None:
    """A turn may have several lines; a name within a line is text."""
    text = "system: Be kind.\nuser: Hello,\nuser-friendly: yes\ntool:\n42 user: x"
    assert conversation(text) == {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello,\nuser-friendly: yes"},
            {"role": "tool", "content": "42 user: x"},
        ]
    }


def test_json_is_a_list_of_messages_or_a_body_with_one() -> None:
    """As an application sends it."""
    turn = {"role": "user", "content": "Hello"}
    assert conversation('[{"role": "user", "content": "Hello"}]') == {"messages": [turn]}
    body = '{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}'
    assert conversation(body) == {"model": "m", "messages": [turn]}
    for text in ("[", "[1]", "{}", '{"messages": [1]}', '{"a": 1, "a": 2}', "[" * 500):
        with pytest.raises(RequestError) as caught:
            conversation(text)
        assert caught.value.param == "prompt"


def test_a_conversation_is_read_as_by_the_proxy() -> None:
    """Each turn with its author; the system messages are the system prompt unless one is given."""
    turns = conversation("system: Be kind.\nuser: Hello\ntool: 42")
    request = chat_request(Settings(), turns, "")
    sources = [segment.source for segment in request.segments if not segment.joined]
    assert sources == [Source.APPLICATION, Source.USER, Source.UNTRUSTED]
    assert request.system_prompt == "Be kind."
    assert chat_request(Settings(), turns, "Other.").system_prompt == "Other."
    assert prompt_request("Hello", "").system_prompt is None
    with pytest.raises(RequestError):
        chat_request(Settings(), {"messages": [{"role": "user"}]}, "")


def test_of_a_pasted_request_everything_is_read() -> None:
    """Definitions of tools and the model, in OpenAI's form and in Anthropic's."""
    tool = {"type": "function", "function": {"name": "find", "description": "Find a ferry."}}
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "tools": [tool]}
    request = chat_request(Settings(), body, "")
    assert request.model == "m"
    assert "Find a ferry." in " ".join(segment.text for segment in request.segments)
    assert chat_request(Settings(), body | {"system": "Be kind."}, "").system_prompt == "Be kind."


def test_a_conversation_has_few_words() -> None:
    """Its length, and its last turn where that is text."""
    assert conversation_words({"messages": []}) == "0 turns"
    assert conversation_words({"messages": [{"role": "user", "content": "Hi"}]}) == "1 turn, the last: Hi"
    assert conversation_words({"messages": [{"content": "Hi"}, {"content": [{"type": "text"}]}]}) == "2 turns"


def test_a_text_is_read_as_what_it_is_said_to_be() -> None:
    """One prompt is anything; the others have a form."""
    assert parsed("prompt", "user") == "user"
    for kind in ("batch", "conversation"):
        with pytest.raises(RequestError):
            parsed(kind, "")
