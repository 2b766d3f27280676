"""Many patterns in one pass."""

from __future__ import annotations

import pytest

from sidecar.errors import PolicyError
from sidecar.layers.matcher import GROUP, Matcher


def test_patterns_of_all_groups_are_met_by_their_number() -> None:
    """Numbers do not depend on how patterns are grouped."""
    patterns = [f"word{number}x" for number in range(3 * GROUP + 1)]
    matcher = Matcher(patterns)
    text = f"word0x and WORD{GROUP}X and word{3 * GROUP}x"
    assert sorted(matcher.met(text.encode())) == [0, GROUP, 3 * GROUP]


def test_places_count_code_points() -> None:
    """Not bytes, whatever stands before."""
    matcher = Matcher(["rule"])
    assert list(matcher.spans(0, "déjà 😀 rule, rule")) == [(7, 11), (13, 17)]


def test_nothing_met_is_nothing() -> None:
    """No hit, no numbers."""
    assert list(Matcher(["a", "b"]).met(b"xyz")) == []


def test_patterns_too_large_for_an_automaton_are_refused() -> None:
    """At load, not by silence at scan time."""
    with pytest.raises(PolicyError, match="too large"):
        Matcher([r"\pL{400}" + str(number) for number in range(GROUP)])
