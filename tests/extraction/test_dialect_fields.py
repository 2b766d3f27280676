"""Twin of sidecar/extraction/dialect_fields.py: what each API adds to the shared table."""

from __future__ import annotations

import pytest

from sidecar.extraction.dialect_fields import SHARED, fields_of
from sidecar.extraction.field_table import fold
from sidecar.protocols import PROTOCOLS, Protocol

EACH = pytest.mark.parametrize("each", PROTOCOLS.values(), ids=lambda each: each.name)


@EACH
def test_a_protocol_only_adds_to_the_shared_table(each: Protocol) -> None:
    """Nothing that counts as untrusted, as known or as a reference elsewhere loses that."""
    fields = fields_of(each.name)
    for name in ("known", "free_form", "definitions", "untrusted", "references", "media", "ids", "opaque", "prose"):
        assert getattr(fields, name) >= getattr(SHARED, name)
    assert all(fields.enums[name] >= values for name, values in SHARED.enums.items())


@EACH
def test_no_known_name_is_mistakable_for_another(each: Protocol) -> None:
    """No two known names of one API are equal after folding; its tables name only known ones."""
    fields = fields_of(each.name)
    assert len({fold(name) for name in fields.known}) == len(fields.known)
    own = fields.free_form | fields.untrusted | fields.references | fields.media
    assert fields.known >= own - SHARED.untrusted - SHARED.references


@EACH
def test_ignored_places_consist_of_known_names(each: Protocol) -> None:
    """A misspelt path would ignore nothing."""
    steps = {step.rstrip("[]") for pattern in fields_of(each.name).ids for step in pattern.split(".")}
    assert steps - fields_of(each.name).known == set()


def test_names_of_one_api_are_unknown_in_another() -> None:
    """So that an unknown field stays scanned with its names."""
    assert fields_of("openai") is SHARED
    assert fields_of("anthropic") is SHARED
    assert "functionResponse" not in SHARED.known
    assert fields_of("gemini").confusable_with("FUNCTIONRESPONSE") == "functionResponse"
    assert fields_of("gemini").is_client_named("args", {})
    assert not fields_of("gemini").is_client_named("parts", [])
