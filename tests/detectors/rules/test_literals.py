"""Required literals of patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import policy
from sidecar.detectors.rules.fragments import NON_ASCII
from sidecar.detectors.rules.literals import has_case_variants, normalized, required_literals

EVERY = [pattern for rule in policy.load().rules for pattern in rule.patterns]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World -- 42!", b" hello world 00 "),
        ("naïve_Größe", b" na ve gr e "),
        ("\u212aelvin, wa\u017fs", b" kelvin wass "),
        ("指示", b" "),
        ("", b" "),
    ],
)
def test_the_normal_form(text: str, expected: bytes) -> None:
    """Letters are kept, digits become zeros, separators one space."""
    assert normalized(text.encode()) == expected


@given(
    st.lists(
        st.sampled_from([b"word", b"x", b" ", b"    ", b". - ", b"\x1f\n", "é".encode(), "指示".encode(), b"_" * 9])
    )
)
def test_words_have_one_space_between_them(pieces: list[bytes]) -> None:
    """Any run of separators becomes one space, also at both ends."""
    words = normalized(b"".join(pieces))
    assert words == (b" ".join([b"", *words.split(), b""]) or b" ")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\bignor(?:e|ing)\b", [{b" ignore ", b" ignoring "}]),
        (r"Don.?t[\s\W_]+tell", [{b"t tell"}, {b"don"}]),
        (r"don't tell", [{b"don t tell"}]),
        (r"\bi\b", []),
        (r"\b\d{3}-\d\d\b", [{b" 000 00 "}]),
        (r"[\w-]+@[\w.-]+", [{"@"}]),
        (r"!\[x\w+\]\(", [{"![x"}, {"]("}]),
        ("指示[а-я]", [{"指示"}]),
        ("[а-я]+x", [{NON_ASCII}]),
        ("STRASSE|straße", [{b"strasse", b"stra e"}]),
        (r"[a-z]{9}", []),
    ],
)
def test_needles_of_a_pattern(pattern: str, expected: list[set[bytes | str]]) -> None:
    """Words are searched in normal form, punctuation and other scripts unchanged."""
    assert [set(clause) for clause in required_literals(pattern).clauses] == expected


def test_the_most_selective_clauses_come_first() -> None:
    """Clauses are ordered by selectivity and limited in number."""
    clauses = required_literals(
        r"\bthe\W\w+\Wobedience\W\w+\W(?:rule|ruler|rules|laws|edict)\W\w+\Wpardon\W\w+\W(?:ai)\b"
    ).clauses
    assert [min(clause) for clause in clauses] == [b" obedience ", b" pardon ", b" edict ", b" ai "]


def test_letters_that_bound_words() -> None:
    """Two non-ASCII characters match letters when case is ignored, but separate words."""
    assert [has_case_variants(text) for text in ("Kelvin", "naïve", "\u212aelvin", "wa\u017f")] == [
        False,
        False,
        True,
        True,
    ]


def test_most_shipped_patterns_need_words_and_have_a_bound() -> None:
    """Hardly any shipped pattern is searched in every text."""
    assert len([pattern for pattern in EVERY if not required_literals(pattern).clauses]) <= 8
    assert len([pattern for pattern in EVERY if required_literals(pattern).max_letters > 800]) <= 70
