"""What is held of `sidecar.extraction.walker`: the walk is in order, bounded, and tells its two regions apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import BodyError
from sidecar.extraction import walker
from sidecar.extraction.field_table import Shape, shape
from sidecar.extraction.walker import Location, Walker


def walked(document: Any, **options: bool) -> Walker:
    """A walk that has been through a document."""
    made = Walker(Shape(), **options)
    made.run(document, Location())
    return made


def leaves(document: Any) -> list[tuple[str, str]]:
    """Path and text of every leaf, in order."""
    return [(leaf.location.path, leaf.text) for leaf in walked(document).leaves]


def test_leaves_come_in_document_order() -> None:
    """What stands first is read first, at every depth."""
    document = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}],
        "prompt": "three",
        "stop": ["four", "five"],
    }
    assert [text for _, text in leaves(document)] == ["one", "two", "three", "four", "five"]


def test_empty_strings_and_other_scalars_are_no_leaves() -> None:
    """Only text is text."""
    assert leaves({"messages": [{"content": ""}, {"content": None}, {"content": 5}], "n": 1, "zz": [True, 1.5]}) == [
        ("zz", "zz")
    ]


def test_a_deep_document_needs_no_recursion() -> None:
    """Depth is bounded by reading, not by the interpreter's stack."""
    document: Any = "the end of it"
    for _ in range(5000):
        document = [document]
    assert leaves({"x": document})[-1][1] == "the end of it"


def test_escaped_json_is_unfolded_to_a_bounded_depth() -> None:
    """JSON in JSON in JSON is followed three times; every level is scanned as it stands as well."""
    import json  # noqa: PLC0415 - used here alone

    text: Any = "very deep \u00e9"
    for _ in range(6):
        text = json.dumps({"x": text})
    found = walked({"arguments": text}).leaves
    assert found[0].text == text
    assert max(leaf.location.nested for leaf in found) == walker.MAX_JSON_NESTING


def test_the_number_of_leaves_is_bounded() -> None:
    """The bound holds for names and words too, whatever their region."""
    for document in (
        {"prompt": ["a b"] * (walker.MAX_LEAVES + 1)},
        {f"name {n}": 1 for n in range(walker.MAX_LEAVES + 1)},
        {"x": [[f"w{n}"] for n in range(walker.MAX_LEAVES + 1)]},
    ):
        with pytest.raises(BodyError):
            walked(document)


def test_json_schema_makes_few_leaves() -> None:
    """Of a tool's parameters remain the names, the choices and the descriptions."""
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
    """The items of a list are read in a row, but not those of an embedding."""
    document = {"input": ["a b", "c d"]}
    assert {leaf.location.turn for leaf in walked(document).leaves} == {"input"}
    assert {leaf.location.turn for leaf in walked(document, join_lists=False).leaves} == {""}


class Steps(Walker):
    """A walk that takes every step."""

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
    """The short way through a conversation finds exactly what the long one finds, in the same order."""
    for name in ("messages", "input", "items"):
        document: Any = {"model": "m", name: turns, "metadata": {name: turns}}
        quick, slow = (kind(shape(operation, "openai")) for kind in (Walker, Steps))
        for way in (quick, slow):
            way.run(document, Location())
        assert (quick.leaves, quick.media, quick.references) == (slow.leaves, slow.media, slow.references)
