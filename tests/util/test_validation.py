"""Twin of sidecar/util/validation.py."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sidecar.util.validation import describe, settings_of, suggestion


class Section(BaseModel):
    """A section."""

    model_config = ConfigDict(extra="forbid")
    threshold: float = Field(default=0.6, le=1)
    enabled: bool = True


class Sample(BaseModel):
    """The settings."""

    model_config = ConfigDict(extra="forbid")
    scan: Section = Section()
    mode: Literal["enforce", "monitor"] = "enforce"
    models: dict[str, Section] = {}
    port: int = 1
    until: date | None = None


def first_error(values: dict[str, Any]) -> Any:
    """The first error of these values."""
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(values)
    return caught.value.errors()[0]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"scan": 8080}, "must be a section with settings below it, not 8080"),
        ({"scan": "sk-secret"}, "must be a section with settings below it"),
        ({"mode": "sk-secret"}, "must be 'enforce' or 'monitor'"),
        ({"scan": {"threshold": 3}}, "must be at most 1.0, not 3"),
        ({"scan": {"threshold": "x"}}, "must be a number"),
        ({"scan": {"enabled": None}}, "must be true or false, not nothing"),
        ({"mode": "monitr"}, "must be 'enforce' or 'monitor'; did you mean monitor?"),
        ({"until": "31.12.2026"}, "must be a day, such as 2026-12-31"),
        ({"port": 1.5}, "must be a whole number, not 1.5"),
    ],
)
def test_a_wrong_value_is_described_in_plain_words(values: dict[str, Any], words: str) -> None:
    """Numbers and truth values are shown as read; texts may be secrets and are not."""
    assert describe(first_error(values)) == words


def test_a_bare_on_is_said_to_be_read_as_true() -> None:
    """`mode: on` is no text in YAML."""
    assert "not true; YAML reads on" in describe(first_error({"mode": True}))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("scan", "treshold"), "; did you mean threshold?"),
        (("models", "gpt-*", "treshold"), "; did you mean threshold?"),
        (("threshold",), "; did you mean scan.threshold?"),
        (("scna",), "; did you mean scan?"),
        (("scan_threshold",), "; did you mean scan.threshold?"),
        (("zebra",), ""),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_one(place: tuple[str, ...], words: str) -> None:
    """Beside it, below a key of a mapping, or in another section."""
    assert suggestion(Sample, place) == words


def test_settings_are_named_by_their_dotted_path() -> None:
    """Sections are no settings."""
    assert settings_of(Sample) == ["scan.threshold", "scan.enabled", "mode", "models", "port", "until"]
