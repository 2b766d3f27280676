"""Tests of units and rule changes."""

from __future__ import annotations

import pytest

from sidecar.util.units import (
    Rate,
    RuleChange,
    format_duration,
    format_rate,
    format_size,
    parse_byte_rate,
    parse_duration,
    parse_rate,
    parse_rule_changes,
    parse_size,
)


@pytest.mark.parametrize("text", ["0s", "30s", "15m", "24m", "90d", "250ms", "1500ms", "1h", "40s"])
def test_durations_are_written_as_they_are_read(text: str) -> None:
    """In the largest unit of which they are a whole number."""
    assert format_duration(parse_duration(text)) == text


@pytest.mark.parametrize("text", ["0", "1000", "768MiB", "1GiB", "10KiB"])
def test_sizes_are_written_as_they_are_read(text: str) -> None:
    """In the largest binary unit of which they are a whole number."""
    assert format_size(parse_size(text)) == text


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("15m", 900), ("24h", 86400), ("90d", 7776000), ("250ms", 0.25), ("1.5s", 1.5)]
)
def test_durations_become_seconds(text: str, seconds: float) -> None:
    """A duration with a unit is converted to seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "-1s", "1y", "s", "inf s", None, 5])
def test_an_invalid_duration_is_rejected(text: object) -> None:
    """Missing units, negative and infinite values are rejected with an example."""
    with pytest.raises(ValueError, match="is not a duration; write it like"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("10MiB", 10485760), ("500kB", 500000), ("7", 7), (1048576, 1048576)])
def test_sizes_become_bytes(text: object, size: int) -> None:
    """Sizes accept decimal and binary units and plain bytes."""
    assert parse_size(text) == size


def test_rates_become_count_and_period() -> None:
    """`600/minute` is 600 requests in 60 seconds."""
    assert parse_rate("600/minute") == Rate(600, 60.0)
    assert [parse_rate(format_rate(Rate(7, period))).period for period in (1.0, 60.0, 3600.0)] == [1.0, 60.0, 3600.0]


def test_rates_of_bytes_have_sizes() -> None:
    """`600MiB/minute` is that many bytes in 60 seconds; a size and a known period are needed."""
    assert parse_byte_rate("600MiB/minute") == Rate(600 * 2**20, 60.0)
    assert parse_byte_rate(Rate(7, 1.0)) == Rate(7, 1.0)
    for text in ("600MiB", "600MiB/fortnight", "x/minute", "0/minute", "-1MiB/second"):
        with pytest.raises(ValueError, match=r"rate of bytes|allows nothing"):
            parse_byte_rate(text)


@pytest.mark.parametrize("text", ["600", "600/fortnight", "x/minute", "0/minute", "-1/second"])
def test_an_invalid_rate_is_rejected(text: str) -> None:
    """A rate needs a positive count and a known period."""
    with pytest.raises(ValueError, match=r"rate|allows nothing"):
        parse_rate(text)


def test_rule_changes_are_parsed() -> None:
    """A status, a score, or both, per rule."""
    assert parse_rule_changes("INJ-105=off, JB-102 = hint,SMG-130=block 0.8, INJ-DE-1=0.5,") == {
        "INJ-105": RuleChange("off"),
        "JB-102": RuleChange("hint"),
        "SMG-130": RuleChange("block", 0.8),
        "INJ-DE-1": RuleChange(None, 0.5),
    }
    assert parse_rule_changes("") == {}


@pytest.mark.parametrize("text", ["INJ-105", "inj=off", "INJ-105=of", "INJ-105=", "INJ-105=block 2", "A-1=off 0.5 x"])
def test_an_invalid_rule_change_is_rejected(text: str) -> None:
    """The error shows the correct form."""
    with pytest.raises(ValueError, match="write it like INJ-105=off"):
        parse_rule_changes(text)
