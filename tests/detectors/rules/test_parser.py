"""Parsing of patterns."""

from __future__ import annotations

from math import inf

import pytest

from sidecar.detectors.rules.fragments import DIGIT, NON_ASCII, SEPARATOR, Strings
from sidecar.detectors.rules.parser import parse


def read(pattern: str) -> tuple[list[set[str]], float]:
    """Its clauses (`_` separator, `0` digit, `?` non-ASCII) and its maximum length."""
    part = parse(pattern, bool, lambda clause: (-min(map(len, clause)), len(clause)))
    return [readable(clause) for clause in part.clauses], part.max_letters


def readable(clause: Strings) -> set[str]:
    """The strings of a clause, readable."""
    return {s.replace(SEPARATOR, "_").replace(DIGIT, "0").replace(NON_ASCII, "?") for s in clause}


@pytest.mark.parametrize(
    ("pattern", "clauses", "length"),
    [
        ("ignore", [{"ignore"}], 6),
        ("(?:Ignore|FORGET)", [{"Ignore", "FORGET"}], 6),
        (
            r"\bignor(?:e|ing)\s+rules?\b",
            [{"_ignore_rule_", "_ignore_rules_", "_ignoring_rule_", "_ignoring_rules_"}],
            13,
        ),
        (r"you[\s\W_]+are[\s\W_]*now", [{"you_are_now", "you_arenow"}], 9),
        ("(?:very )?bad", [{"bad", "very bad"}], 7),
        ("(?:very )*bad", [{"bad"}], inf),
        ("(?:very ){2,3}good", [{"very very good", "very very very good"}], 16),
        ("(?:alpha.beta|gamma)", [{"alpha", "gamma"}, {"beta", "gamma"}], 10),
        ("(?:long[a-z]word|anything|)", [], 9),
        (r"one\W\w+\Wtwo", [{"one_"}, {"_two"}], 70),
        ("gr[ae]y", [{"gray", "grey"}], 4),
        ("gr[^ae]y", [{"gr"}, {"y"}], 4),
        (r"\x{48}ello\.", [{"Hello."}], 5),
        (r"a\d{3}b", [{"a000b"}], 5),
        (r"\d{3}-\d\d[^a]", [{"000-00"}], 6),
        ("(?-i:KEY-)[A-Z]+", [{"KEY-"}], 67),
        (r"(?-i:KEY\WX)", [{"KEY"}, {"X"}], 5),
        ("(?i)(?P<name>word)", [{"word"}], 4),
        ("[]x]|[^]y]", [], 1),
        (r"[\w-]+@[\w.]+", [{"@"}], inf),
        ("指示[а-я]", [{"指示?"}], 0),
        (r"\Aone\z", [{"_one_"}], 3),
        (r"one\Qtwo\E", [], inf),
        ("a{,3}b", [{"a{,3}b"}], 3),
    ],
)
def test_patterns(pattern: str, clauses: list[set[str]], length: float) -> None:
    """Required parts give clauses; optional and unsupported ones do not."""
    clause_set, longest = read(pattern)
    assert ([clause for clause in clause_set if clause != {""}], longest) == (clauses, length)
