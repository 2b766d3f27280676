"""What a pattern cannot do without."""

from __future__ import annotations

import pytest
import re2

from sidecar import policy
from sidecar.layers.needles import DIGIT, WIDE, clauses

EVERY = [pattern for rule in policy.load().rules for pattern in rule.patterns]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ignore", [{"ignore"}]),
        ("(?:Ignore|FORGET)", [{"ignore", "forget"}]),
        (r"\bignor(?:e|ing)\s+rules?\b", [{"ignore", "ignoring"}, {"rule", "rules"}]),
        ("(?:very )?bad", [{"bad", "very bad"}]),
        ("(?:very )*bad", [{"bad"}]),
        ("(?:very ){2,4}good", [{"very "}, {"good"}]),
        ("(?:very ){0,4}bad", [{"bad"}]),
        ("(?:alpha.beta|gamma)", [{"alpha", "gamma"}, {"beta", "gamma"}]),
        ("(?:long[a-z]word|anything|)", []),
        ("gr[ae]y", [{"gray", "grey"}]),
        ("gr[^ae]y", [{"gr"}]),
        (r"\x{48}ello\.", [{"hello."}]),
        (r"a\d{3}b", [{DIGIT * 3}]),
        (r"\d{2,}[^a]\d{30}", [{DIGIT * 12}, {DIGIT * 2}]),
        (r"(?:-\d){3}\d+", [{DIGIT}]),
        (r"[0-9]{3}|[7\d]", [{DIGIT * 3, DIGIT}]),
        (r"[а-яё]+|[\x{ad}é]", [{WIDE}]),
        ("(?-i:KEY-)[A-Z]+", [{"key-"}]),
        ("(?i)(?P<name>word)", [{"word"}]),
        ("[]x]|[^]y]", []),
        (r"[\w-]+@[\w.-]+", [{"@"}]),
        ("指示", [{"指示"}]),
        ("STRASSE|straße", [{"strasse"}]),
    ],
)
def test_clauses_of_a_pattern(pattern: str, expected: list[set[str]]) -> None:
    """One of each clause must be there; what may be missing is no clause."""
    assert [set(clause) for clause in clauses(pattern)] == expected


def test_most_shipped_patterns_need_words() -> None:
    """Else every text would be searched for all of them."""
    without = [pattern for pattern in EVERY if not clauses(pattern)]
    assert len(without) <= 12, without


def test_every_example_holds_what_its_patterns_need() -> None:
    """For every rule's lines and every pattern that meets one, as written and in capitals."""
    compiled = [(re2.compile(pattern, policy.options()), clauses(pattern)) for pattern in EVERY]
    for line in {line.upper() if up else line for rule in policy.load().rules for line in rule.match for up in (0, 1)}:
        text = line.casefold()
        shown = "".join(DIGIT if c in "0123456789" else c for c in text) + (text if line.isascii() else text + WIDE)
        for pattern, needs in compiled:
            if pattern.search(line):
                for clause in needs:
                    assert any(word in shown for word in clause)
