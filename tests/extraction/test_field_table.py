"""Tests `sidecar.extraction.field_table`: the tables are complete and consistent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidecar.extraction.dialect_fields import SHARED
from sidecar.extraction.field_table import (
    ENUMS,
    FREE_FORM,
    IDS,
    KNOWN_NAMES,
    fold,
    looks_like_id,
)
from sidecar.protocols import PROTOCOLS

TABLE = json.loads((Path(__file__).parent.parent / "data" / "openai_text_paths.json").read_text("utf-8"))


def test_every_name_of_the_surface_is_known() -> None:
    """All names defined by the operations are in the table, so that their variants are refused."""
    paths = [path.partition("{")[0] for paths in TABLE.values() for path in paths]
    names = {step.rstrip("[]") for path in paths for step in path.removeprefix("$.").split(".")} - {""}
    assert names <= KNOWN_NAMES


def test_no_known_name_is_mistakable_for_another() -> None:
    """No two known names are equal after folding."""
    assert len({fold(name) for name in KNOWN_NAMES}) == len(KNOWN_NAMES)
    assert KNOWN_NAMES.issuperset(FREE_FORM | ENUMS.keys())


@pytest.mark.parametrize(
    ("name", "known_name"),
    [
        ("Messages", "messages"), ("CONTENT", "content"), ("me\u017f\u017fages", "messages"), ("to\u212aens", "tokens"),
        ("\uff52ole", "role"), ("role\u200b", "role"), ("ro\u00adle", "role"), ("role\x00", "role"),
        ("\x7frole", "role"),
        ("Role ", None), ("roles", None), ("maxTokens", None), ("x" * 100, None), ("MESSAGES" * 9, None),
        ("", None),
    ],
)  # fmt: skip
def test_mistakable_names_are_found(name: str, known_name: str | None) -> None:
    """Case, width, look-alike letters and invisible characters fold away; other differences do not."""
    assert SHARED.confusable_with(name) == known_name


def test_free_regions_begin_where_the_client_names() -> None:
    """An object under a free-form or unknown name holds client-chosen names; a list of turns does not."""
    assert SHARED.is_client_named("metadata", {})
    assert SHARED.is_client_named("unheard_of", [])
    assert not SHARED.is_client_named("input", [{}])
    assert not SHARED.is_client_named("messages", {})


def test_ids_are_short_words() -> None:
    """A value that is ignored at the path of an id cannot be a sentence."""
    assert all(map(looks_like_id, ["gpt-4o-2026", "file_abc123", "ft:gpt-4o:org::x", "meta/llama@1"]))
    assert not any(map(looks_like_id, ["", "two words", "line\nbreak", "é", "x" * 201, "-x", "a\u00a0b", "a\n"]))


def test_ignored_places_are_written_as_patterns() -> None:
    """Each path on the ignore list consists of known names."""
    assert {step.rstrip("[]") for pattern in IDS for step in pattern.split(".")} <= KNOWN_NAMES


def test_unknown_operations_may_hold_a_chat() -> None:
    """An operation added by the operator is read as a chat, in the dialect of its route."""
    assert PROTOCOLS["openai"].shape("/score").turns == {"messages[]"}
    assert "system" in PROTOCOLS["anthropic"].shape("/score").system
