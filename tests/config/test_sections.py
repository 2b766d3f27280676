"""Tests of the rules for every settings section."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.config.sections import Limits, Listen


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
