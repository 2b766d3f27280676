"""Tests of the rules for every settings section."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from sidecar.config import load
from sidecar.config.sections import Limits, Listen
from sidecar.errors import ConfigError


def test_a_section_is_strict_and_frozen() -> None:
    """Unknown names are errors, and settings are immutable while serving."""
    with pytest.raises(ValidationError):
        Listen.model_validate({"prot": 8080})
    with pytest.raises(ValidationError):
        Listen().port = 1


def test_durations_sizes_and_rates_are_parsed() -> None:
    """As config.yaml writes them."""
    limits = Limits.model_validate({"body_bytes": "1MiB", "body_timeout": "250ms", "rate": "5/second"})
    assert (limits.body_bytes, limits.body_timeout, limits.rate.requests) == (1024 * 1024, 0.25, 5)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({}, "needs a text, a path or a tool"),
        ({"text": "("}, "no RE2"),
        ({"text": "x", "until": "soon"}, "until"),
        ({"text": "x", "rules": []}, "needs at least 1 entries"),
        ({"text": "x", "pfad": "y"}, "unknown setting"),
    ],
)
def test_an_exception_says_where_for_what_and_until_when(terms: dict[str, object], words: str, tmp_path: Path) -> None:
    """Anything else is refused with the number of the entry."""
    whole = {"rules": ["INJ-1"], "until": "2030-01-31", "reason": "r", **terms}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"exceptions": [whole]}), "utf-8")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "c.yaml", {})
    assert "exceptions.0" in str(caught.value)
    assert words in str(caught.value)
