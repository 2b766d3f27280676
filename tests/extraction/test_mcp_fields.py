"""Tests of the tables of the Model Context Protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sidecar.extraction.mcp_fields import ANY_DEFINITION, DEFINITIONS, ENUMS, FREE_FORM, IDS, MEDIA, METHODS, NAMES

EXAMPLES = json.loads((Path(__file__).parents[1] / "data" / "mcp_examples.json").read_text("utf-8"))


def names_in(value: Any) -> Iterator[str]:
    """All names of members, without those inside free-form objects."""
    if isinstance(value, list):
        for item in value:
            yield from names_in(item)
    elif isinstance(value, dict):
        for name, child in value.items():
            yield name
            if name not in FREE_FORM | {"data"}:
                yield from names_in(child)


def test_every_name_and_method_of_the_protocol_is_known() -> None:
    """The examples come from the types of the official SDK; names of their own are marked there."""
    found = {name for example in EXAMPLES for name in names_in(example["message"])}
    assert {name for name in found if not name.startswith(("Key ", "Free "))} - NAMES == set()
    assert {example["method"] for example in EXAMPLES} <= METHODS


def test_the_tables_name_only_fields_of_the_protocol() -> None:
    """A misspelled name would have no effect."""
    assert {*FREE_FORM, *IDS, *MEDIA, *ENUMS, *ANY_DEFINITION} <= NAMES
    assert set(DEFINITIONS) <= METHODS
