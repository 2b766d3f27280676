"""Twin of sidecar/extraction/packing.py: which strings share a segment, and what a finding in it names."""

from __future__ import annotations

import json
from typing import Any

from sidecar.extraction.extraction import extract
from sidecar.extraction.packing import MAX_STRING_LENGTH, PACK_LENGTH
from sidecar.types import Segment, Source


def segments(body: dict[str, Any]) -> tuple[Segment, ...]:
    """The segments of a chat completion."""
    return extract(body, "/chat/completions", "openai").segments


def tool(name: str, said: str) -> dict[str, Any]:
    """A tool with a description."""
    return {"type": "function", "function": {"name": name, "description": said}}


def test_the_strings_of_one_tool_share_a_segment_and_keep_their_paths() -> None:
    """A finding at an offset names the string that stands there."""
    (first, second) = segments({"tools": [tool("look_up", "Looks a word up."), tool("add", "Adds two numbers.")]})
    assert (first.text, first.source) == ("look_up\nLooks a word up.", Source.APPLICATION)
    paths = ["tools.0.function.name", "tools.0.function.description"]
    assert [first.path_at(offset) for offset in (None, 0, 7, 8, 20)] == [paths[0], *paths[:1] * 2, *paths[1:] * 2]
    assert first.paths == (paths[0], *paths)
    assert second.path_at(5) == "tools.1.function.description"


def test_prose_and_long_strings_stand_alone() -> None:
    """What is said in a turn, and what fills windows of its own."""
    long = "word " * MAX_STRING_LENGTH
    body = {"messages": [{"role": "user", "content": "hi"}], "metadata": {"note": long, "a": "one two"}}
    assert [(segment.text, segment.pieces) for segment in segments(body)] == [
        ("hi", ()),
        ("note a", ()),
        (long, ()),
        ("one two", ()),
    ]


def test_a_pack_is_bounded() -> None:
    """Six hundred strings are as many packs as their text fills; none is lost, all in their order."""
    said = [f"text number {n} of the list" for n in range(600)]
    packs = extract({"input": said}, "/embeddings", "openai").segments
    whole = "\n".join(said)
    assert "\n".join(segment.text for segment in packs) == whole
    assert len(packs) <= len(whole) / PACK_LENGTH + 1
    assert packs[-1].pieces[-1][1] == "input.599"


def test_what_two_sources_say_is_never_packed_together() -> None:
    """An assistant's call and the result that stands in the same item."""
    call = {"type": "mcp_call", "name": "look", "arguments": "a b", "output": "it rains"}
    found = extract({"input": [call]}, "/responses", "openai").segments
    assert [(segment.text, segment.source) for segment in found] == [
        ("look\na b", Source.MODEL),
        ("it rains", Source.UNTRUSTED),
    ]


def test_what_a_tool_returned_as_json_is_one_text() -> None:
    """However long it is and its strings are: its windows are weighed together, and a finding names the string."""
    rows = [{"title": f"Row {number} of the table", "note": 'some "words" ' * 60} for number in range(20)]
    found = segments({"messages": [{"role": "tool", "tool_call_id": "1", "content": json.dumps(rows)}]})
    (one,) = [segment for segment in found if 'some "words"' in segment.text]
    assert one.source is Source.UNTRUSTED
    assert one.path_at(one.text.index("Row 7 ")).endswith("7.title")
