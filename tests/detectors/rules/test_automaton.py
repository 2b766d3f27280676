"""RE2 automata: bounded, compiled on first use, shared."""

from __future__ import annotations

import gc

import pytest

from sidecar.detectors.rules import automaton
from sidecar.detectors.rules.matcher import Matcher
from sidecar.errors import PolicyError


def matches(matcher: Matcher, text: str) -> list[int]:
    """The numbers of the matching patterns."""
    read = matcher.prefilter(text)
    return list(matcher.matching(read)) if read else []


@pytest.mark.parametrize("times", [145, 200, 400])
def test_a_pattern_too_large_for_an_automaton_is_refused(times: int) -> None:
    """The error is raised at load, not ignored at scan time."""
    with pytest.raises((PolicyError, ValueError), match="too large"):
        Matcher([rf"(?:\pL\pN\pP){{{times}}}"])


def test_an_automaton_is_made_when_it_is_needed_and_the_largest_fits() -> None:
    """A pattern of nearly the maximum size matches like any other."""
    matcher = Matcher(["rare words", r"large (?:\pL\pN\pP){142}"])
    assert matches(matcher, "nothing of the kind") == []
    assert not any("match" in vars(automaton) for automaton in matcher._automata)
    assert matches(matcher, "a large " + "a1." * 142) == [1]
    assert ["match" in vars(automaton) for automaton in matcher._automata] == [False, True]


def test_automata_are_shared_while_they_are_in_use() -> None:
    """A reload compiles only changed patterns; unused automata are freed."""
    first, second = Matcher(["shared words", "first alone"]), Matcher(["shared words", "second alone"])
    assert first._automata[0] is second._automata[0]
    assert {("first alone",), ("shared words",)} <= set(automaton._SHARED)
    del first
    gc.collect()
    assert ("first alone",) not in automaton._SHARED
    assert matches(second, "the shared words") == [0]


def test_an_automaton_says_whether_it_is_made() -> None:
    """It compiles on first use, or immediately on request."""
    late, soon = automaton.automaton("made late"), automaton.automaton("made soon").compiled()
    assert [late.is_compiled, soon.is_compiled] == [False, True]
    assert late.match(b"it was made late") == [0]
    assert late.is_compiled
