"""Tests `sidecar.extraction.scan_request`: bodies of the scan API, and errors that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.errors import BodyError
from sidecar.extraction.scan_request import MAX_PROMPTS, parse_batch, parse_chat, parse_scan
from sidecar.types import ScanRequest, Segment, Source


def test_a_scan_request_is_read() -> None:
    """All three fields; null means omitted; an empty prompt is valid; unknown fields are ignored."""
    assert parse_scan({"prompt": "hi", "system_prompt": "be kind", "model": "m"}) == ScanRequest(
        (Segment("hi", Source.USER, "prompt"),), "be kind", "m"
    )
    assert parse_scan({"prompt": "", "system_prompt": None, "model": None, "extra": 5}) == ScanRequest((Segment(""),))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "prompt"), ({"prompt": None}, "prompt"), ({"prompt": 5}, "prompt"), ({"prompt": ["hi"]}, "prompt"),
        ({"prompt": {"text": "hi"}}, "prompt"), ({"prompt": True}, "prompt"),
        ({"prompt": "hi", "system_prompt": 5}, "system_prompt"), ({"prompt": "hi", "model": ["m"]}, "model"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(body: Any, field: str) -> None:
    """The error's detail and param name the field."""
    with pytest.raises(BodyError, match=f"'{field}'") as caught:
        parse_scan(body)
    assert (caught.value.kind, caught.value.param) == ("malformed", field)


@pytest.mark.parametrize("body", [None, 5, "hi", [], [{"prompt": "hi"}], True])
def test_a_scan_request_is_an_object(body: Any) -> None:
    """Any other JSON value is refused."""
    with pytest.raises(BodyError, match="object"):
        parse_scan(body)


def test_a_batch_is_read_in_order() -> None:
    """A list of requests is parsed in order, each with its own path."""
    requests = parse_batch([{"prompt": "one"}, {"prompt": "two", "model": "m"}])
    assert [(request.segments[0].text, request.segments[0].path, request.model) for request in requests] == [
        ("one", "0.prompt", None),
        ("two", "1.prompt", "m"),
    ]
    assert len(parse_batch([{"prompt": "x"}] * MAX_PROMPTS)) == MAX_PROMPTS


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "list"), ("hi", "list"), ([], "1 to 100"), ([{"prompt": "x"}] * (MAX_PROMPTS + 1), "1 to 100"),
        (["hi"], "Item 0"), ([{"prompt": "x"}, {}], "'1.prompt'"), ([{"prompt": "x", "model": 5}], "'0.model'"),
    ],
)  # fmt: skip
def test_a_wrong_batch_says_which_item(body: Any, message: str) -> None:
    """A batch without 1 to 100 valid requests is refused, and the error names the item."""
    with pytest.raises(BodyError, match=message):
        parse_batch(body)


def test_a_chat_is_read() -> None:
    """A chat is parsed as the body of a chat completion with its tools; unknown fields are ignored."""
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "first words"}]
    tools = [{"type": "function", "function": {"name": "look"}}]
    chat = parse_chat({"messages": messages, "tools": tools, "model": "m", "unknown": 5})
    assert (chat.body, chat.system_prompt) == ({"messages": messages, "model": "m", "tools": tools}, None)
    assert parse_chat({"messages": [], "system_prompt": "be brief"}).system_prompt == "be brief"


@pytest.mark.parametrize("messages", [None, "hi", {}, [5], ["hi"], [None]])
def test_a_chat_needs_messages(messages: Any) -> None:
    """Messages that are not a list of objects are refused."""
    with pytest.raises(BodyError, match="'messages'"):
        parse_chat({"messages": messages})
