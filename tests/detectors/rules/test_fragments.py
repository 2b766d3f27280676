"""Fragments: exact strings and required clauses of pattern parts."""

from __future__ import annotations

from math import inf

import pytest

from sidecar.detectors.rules.fragments import (
    DIGIT,
    MAX_WORD,
    NON_ASCII,
    SEPARATOR,
    Fragment,
    concatenated,
    from_class,
    from_strings,
    repeated,
)

ANY = Fragment(None, (), 1)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("ae", {"a", "e"}),
        ("çc", {"c", "ç"}),
        ("0-9", {DIGIT}),
        ("\\d", {DIGIT}),
        ("\\d -/", {DIGIT, SEPARATOR}),
        ("\\s", {SEPARATOR}),
        ("\\s\\W_", {SEPARATOR}),
        ("\\s[:punct:]«»", {SEPARATOR}),
        ("^a-z\\d", {SEPARATOR}),
        (",;", {",", ";"}),
        ("а-яё", {NON_ASCII}),
        ("\\x{200b}-\\x{200d}\\x{feff}", {"\u200b", "\u200c", "\u200d", "\ufeff"}),
        ("a-z", None),
        ("^\\s", None),
        ("^\\n", None),
        ("\\pL", None),
    ],
)
def test_classes(inner: str, expected: set[str] | None) -> None:
    """Small classes are listed, digits and separators become placeholders, letters match anything."""
    part = from_class(inner)
    assert (part.exact and set(part.exact)) == expected


@pytest.mark.parametrize("inner", ["a-z", "\\w", "\\w-", "^\\s[:punct:]", "\\d", "а-я", "\\pL"])
def test_characters_of_words(inner: str) -> None:
    """Word characters exclude white space and punctuation."""
    assert from_class(inner).is_word_character


@pytest.mark.parametrize("inner", ["\\S", "^\\n", "a-z.", "\\s\\W_", "a@"])
def test_characters_of_no_word(inner: str) -> None:
    """These classes include white space or punctuation."""
    assert not from_class(inner).is_word_character


def test_length_counts_letters_and_digits() -> None:
    """A word is bounded, separators count nothing, everything else is unbounded."""
    assert from_strings(frozenset({"a-b", "né9"})).max_letters == 2
    assert repeated(from_class("\\w"), 1, inf).max_letters == MAX_WORD
    assert repeated(from_class("\\s\\W"), 1, inf).max_letters == 0
    assert repeated(from_class("^\\n"), 0, 140).max_letters == 140
    assert repeated(from_class("^\\n"), 0, inf).max_letters == inf
    assert repeated(from_strings(frozenset({"ab"})), 1, inf).max_letters == inf


def test_what_is_repeated() -> None:
    """Small repetitions stay exact, a required one gives a clause, an optional one none."""
    digit = from_class("\\d")
    assert repeated(digit, 1, 3).exact == frozenset({DIGIT, DIGIT * 2, DIGIT * 3})
    assert repeated(digit, 2, inf) == Fragment(None, (frozenset({DIGIT * 2}),), MAX_WORD)
    assert repeated(digit, 0, inf) == Fragment(None, (), MAX_WORD)
    assert repeated(ANY, 2, 5) == Fragment(None, (), 5)
    assert repeated(from_class("\\s"), 0, inf).exact == frozenset({"", SEPARATOR})


def test_what_is_between_words_is_so_once() -> None:
    """The bound holds for every composition."""
    edge = frozenset({SEPARATOR})
    assert concatenated([edge, frozenset({"a"}), edge, edge]) == {f"{SEPARATOR}a{SEPARATOR}"}
