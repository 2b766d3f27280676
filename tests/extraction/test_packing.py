"""Tests `sidecar.extraction.packing`: which strings share a segment, and which path a finding in it has."""

from __future__ import annotations

import json
from typing import Any

from sidecar.extraction.extraction import extract
from sidecar.extraction.packing import MAX_STRING_LENGTH, PACK_LENGTH
from sidecar.types import Segment, Source


def segments(body: dict[str, Any]) -> tuple[Segment, ...]:
    """The segments of a chat completion."""
    return extract(body, "/chat/completions", "openai").segments


def tool(name: str, description: str) -> dict[str, Any]:
    """A tool with a description."""
    return {"type": "function", "function": {"name": name, "description": description}}


def test_the_strings_of_one_tool_share_a_segment_and_keep_their_paths() -> None:
    """A finding at an offset has the path of the string at that offset."""
    (first, second) = segments({"tools": [tool("look_up", "Looks a word up."), tool("add", "Adds two numbers.")]})
    assert (first.text, first.source) == ("look_up\nLooks a word up.", Source.APPLICATION)
    paths = ["tools.0.function.name", "tools.0.function.description"]
    assert [first.path_at(offset) for offset in (None, 0, 7, 8, 20)] == [paths[0], *paths[:1] * 2, *paths[1:] * 2]
    assert first.paths == (paths[0], *paths)
    assert second.path_at(5) == "tools.1.function.description"


def test_a_span_over_several_strings_belongs_to_the_one_with_most_of_it() -> None:
    """A window begins with the name of a tool and is about its description."""
    pieces = ((0, "name"), (5, "description"), (30, "type"))
    segment = Segment("look\nFinds what is asked for.\nstr", Source.APPLICATION, "name", pieces=pieces)
    assert segment.path_within(0, 33) == segment.path_within(3, 12) == "description"
    assert segment.path_within(0, 4) == "name"
    assert segment.path_within(30, 33) == "type"
    assert Segment("look", path="name").path_within(0, 4) == "name"


def test_definitions_are_told_from_prose_of_the_application() -> None:
    """Tools and response schemas, packed or long, are no text that addresses the model; nothing of others is one."""
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "description": "What the user gets."}}
    body = {
        "messages": [{"role": "system", "content": "You help readers."}, {"role": "user", "content": "hello there"}],
        "tools": [tool("look_up", "Looks a word up."), tool("add", "Adds numbers. " * MAX_STRING_LENGTH)],
        "response_format": schema,
    }
    definitions = {segment.path: segment.definition for segment in segments(body)}
    assert [path for path, is_definition in definitions.items() if is_definition] == [
        "tools.0.function.name",
        "tools.1.function.name",
        "tools.1.function.description",
        "response_format.json_schema.name",
    ]
    assert {path for path, is_definition in definitions.items() if not is_definition} == {
        "messages.0.content",
        "messages.1.content",
    }


def test_prose_and_long_strings_stand_alone() -> None:
    """Text of a turn and strings longer than a window are separate segments."""
    long = "word " * MAX_STRING_LENGTH
    body = {"messages": [{"role": "user", "content": "hi"}], "metadata": {"note": long, "a": "one two"}}
    assert [(segment.text, segment.pieces) for segment in segments(body)] == [
        ("hi", ()),
        ("note a", ()),
        (long, ()),
        ("one two", ()),
    ]


def test_a_pack_is_bounded() -> None:
    """Six hundred strings become as many packs as their length requires, complete and in order."""
    texts = [f"text number {n} of the list" for n in range(600)]
    packs = extract({"input": texts}, "/embeddings", "openai").segments
    joined = "\n".join(texts)
    assert "\n".join(segment.text for segment in packs) == joined
    assert len(packs) <= len(joined) / PACK_LENGTH + 1
    assert packs[-1].pieces[-1][1] == "input.599"


def test_what_two_sources_say_is_never_packed_together() -> None:
    """An assistant's call and the result in the same item have different sources."""
    call = {"type": "mcp_call", "name": "look", "arguments": "a b", "output": "it rains"}
    parts = extract({"input": [call]}, "/responses", "openai").segments
    assert [(segment.text, segment.source) for segment in parts] == [
        ("look\na b", Source.MODEL),
        ("it rains", Source.UNTRUSTED),
    ]


def test_what_a_tool_returned_as_json_is_one_text() -> None:
    """A tool result of any length is one segment, and a finding in it has the path of the string."""
    rows = [{"title": f"Row {number} of the table", "note": 'some "words" ' * 60} for number in range(20)]
    parts = segments({"messages": [{"role": "tool", "tool_call_id": "1", "content": json.dumps(rows)}]})
    (result,) = [segment for segment in parts if 'some "words"' in segment.text]
    assert result.source is Source.UNTRUSTED
    assert result.path_at(result.text.index("Row 7 ")).endswith("7.title")
