"""Tests `sidecar.extraction.walker`: the walk is in order, bounded, and distinguishes the two kinds of regions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import BodyError
from sidecar.extraction import walker
from sidecar.extraction.walker import Location, Walker
from sidecar.protocols import PROTOCOLS, Shape


def walk(document: Any, **options: bool) -> Walker:
    """A walker that has run over a document."""
    walker = Walker(Shape(), **options)
    walker.run(document, Location())
    return walker


def leaves(document: Any) -> list[tuple[str, str]]:
    """Path and text of every leaf, in order."""
    return [(leaf.location.path, leaf.text) for leaf in walk(document).leaves]


def test_leaves_come_in_document_order() -> None:
    """Leaves are collected in document order at every depth."""
    document = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}],
        "prompt": "three",
        "stop": ["four", "five"],
    }
    assert [text for _, text in leaves(document)] == ["one", "two", "three", "four", "five"]


def test_empty_strings_and_other_scalars_are_no_leaves() -> None:
    """Only non-empty strings are leaves."""
    assert leaves({"messages": [{"content": ""}, {"content": None}, {"content": 5}], "n": 1, "zz": [True, 1.5]}) == [
        ("zz", "zz")
    ]


def test_a_deep_document_needs_no_recursion() -> None:
    """Depth is bounded by the parser, not by the interpreter's stack."""
    document: Any = "the end of it"
    for _ in range(5000):
        document = [document]
    assert leaves({"x": document})[-1][1] == "the end of it"


def test_escaped_json_is_unfolded_to_a_bounded_depth() -> None:
    """JSON in strings is parsed to three levels; every level is also scanned verbatim."""
    import json  # noqa: PLC0415 - used here alone

    text: Any = "very deep \u00e9"
    for _ in range(6):
        text = json.dumps({"x": text})
    collected = walk({"arguments": text}).leaves
    assert collected[0].text == text
    assert max(leaf.location.nested for leaf in collected) == walker.MAX_JSON_NESTING


def test_the_number_of_leaves_is_bounded() -> None:
    """The bound also holds for names and words in both kinds of regions."""
    for document in (
        {"prompt": ["a b"] * (walker.MAX_LEAVES + 1)},
        {f"name {n}": 1 for n in range(walker.MAX_LEAVES + 1)},
        {"x": [[f"w{n}"] for n in range(walker.MAX_LEAVES + 1)]},
    ):
        with pytest.raises(BodyError):
            walk(document)


def test_json_schema_makes_few_leaves() -> None:
    """Of a tool's parameters only names, enum values and descriptions become leaves."""
    parameters = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where to look"},
            "unit": {"type": "string", "enum": ["metric", "imperial"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert [text for _, text in leaves({"tools": [{"type": "function", "parameters": parameters}]})] == [
        "city unit", "where to look", "metric imperial", "city",
    ]  # fmt: skip


def test_lists_of_plain_texts_count_as_one_turn_unless_told_otherwise() -> None:
    """List items share a turn, except with `join_lists=False`, as for embeddings."""
    document = {"input": ["a b", "c d"]}
    assert {leaf.location.turn for leaf in walk(document).leaves} == {"input"}
    assert {leaf.location.turn for leaf in walk(document, join_lists=False).leaves} == {""}


class SlowWalker(Walker):
    """A walker without the fast path."""

    def _plain_turns(self, node: Any, at: Location) -> int:
        return 0


_TEXTS = st.sampled_from(
    ["", "hello", '{"a": "b\\\\n"}', "data:text/plain,hi", "DATA:;base64,aGk=", "back\\slash", "[1]", "x" * 50]
)
_ROLES = st.sampled_from(
    ["user", "assistant", "system", "developer", "tool", "function", "nobody", "", 5, None, ["user"]]
)
_PARTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": _TEXTS}), max_size=2)
_TURNS = st.one_of(
    st.fixed_dictionaries({"role": _ROLES, "content": st.one_of(_TEXTS, _PARTS, st.none(), st.integers())}),
    st.fixed_dictionaries({"content": _TEXTS, "role": _ROLES, "name": _TEXTS}),
    st.fixed_dictionaries({"role": _ROLES, "text": _TEXTS}),
    _TEXTS,
    st.none(),
)


@given(
    st.lists(_TURNS, max_size=6),
    st.sampled_from(["/chat/completions", "/messages", "/responses", "/conversations", ""]),
)
def test_plain_turns_are_read_as_any_others(turns: list[Any], operation: str) -> None:
    """The fast path collects exactly what the regular walk collects, in the same order."""
    for name in ("messages", "input", "items"):
        document: Any = {"model": "m", name: turns, "metadata": {name: turns}}
        quick, slow = (kind(PROTOCOLS["openai"].shape(operation)) for kind in (Walker, SlowWalker))
        for candidate in (quick, slow):
            candidate.run(document, Location())
        assert (quick.leaves, quick.media, quick.references) == (slow.leaves, slow.media, slow.references)
