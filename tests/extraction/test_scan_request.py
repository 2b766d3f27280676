"""What is held of `sidecar.extraction.scan_request`: the scan door's bodies, and errors that name the field."""

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
    """The error's detail and param say which field it is."""
    with pytest.raises(BodyError, match=f"'{field}'") as caught:
        parse_scan(body)
    assert (caught.value.kind, caught.value.param) == ("malformed", field)


@pytest.mark.parametrize("body", [None, 5, "hi", [], [{"prompt": "hi"}], True])
def test_a_scan_request_is_an_object(body: Any) -> None:
    """Nothing else is."""
    with pytest.raises(BodyError, match="object"):
        parse_scan(body)


def test_a_batch_is_read_in_order() -> None:
    """A list in, a list out, each with a path of its own."""
    found = parse_batch([{"prompt": "one"}, {"prompt": "two", "model": "m"}])
    assert [(request.segments[0].text, request.segments[0].path, request.model) for request in found] == [
        ("one", "0.prompt", None),
        ("two", "1.prompt", "m"),
    ]
    assert len(parse_batch([{"prompt": "x"}] * MAX_PROMPTS)) == MAX_PROMPTS


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "list"), ("hi", "list"), ([], "1 to 100"), ([{"prompt": "x"}] * (MAX_PROMPTS + 1), "1 to 100"),
        (["hi"], "Item 0"), ([{"prompt": "x"}, {}], "'1.prompt'"), ([{"prompt": "x", "model": 5}], "'0.model'"),
    ],
)  # fmt: skip
def test_a_wrong_batch_says_which_item(body: Any, said: str) -> None:
    """Between one and a hundred scan requests; the item is named."""
    with pytest.raises(BodyError, match=said):
        parse_batch(body)


def test_a_chat_is_read() -> None:
    """As the body of a chat completion, with its tools; unknown fields are ignored."""
    said = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "first words"}]
    tools = [{"type": "function", "function": {"name": "look"}}]
    found = parse_chat({"messages": said, "tools": tools, "model": "m", "unknown": 5})
    assert (found.body, found.system_prompt) == ({"messages": said, "model": "m", "tools": tools}, None)
    assert parse_chat({"messages": [], "system_prompt": "be brief"}).system_prompt == "be brief"


@pytest.mark.parametrize("messages", [None, "hi", {}, [5], ["hi"], [None]])
def test_a_chat_needs_messages(messages: Any) -> None:
    """A list of objects, and nothing else."""
    with pytest.raises(BodyError, match="'messages'"):
        parse_chat({"messages": messages})
