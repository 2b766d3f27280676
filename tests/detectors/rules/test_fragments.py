"""What parts of patterns stand for."""

from __future__ import annotations

from math import inf

import pytest

from sidecar.detectors.rules.fragments import BETWEEN, DIGIT, LONG_WORD, WIDE, Part, joined, of_class, of_strings, times

ANY = Part(None, (), 1)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("ae", {"a", "e"}),
        ("çc", {"c", "ç"}),
        ("0-9", {DIGIT}),
        ("\\d", {DIGIT}),
        ("\\d -/", {DIGIT, BETWEEN}),
        ("\\s", {BETWEEN}),
        ("\\s\\W_", {BETWEEN}),
        ("\\s[:punct:]«»", {BETWEEN}),
        ("^a-z\\d", {BETWEEN}),
        (",;", {",", ";"}),
        ("а-яё", {WIDE}),
        ("\\x{200b}-\\x{200d}\\x{feff}", {"\u200b", "\u200c", "\u200d", "\ufeff"}),
        ("a-z", None),
        ("^\\s", None),
        ("^\\n", None),
        ("\\pL", None),
    ],
)
def test_classes(inner: str, expected: set[str] | None) -> None:
    """Few characters as themselves, digits and what is between words by their kind, letters as anything."""
    part = of_class(inner)
    assert (part.exact and set(part.exact)) == expected


@pytest.mark.parametrize("inner", ["a-z", "\\w", "\\w-", "^\\s[:punct:]", "\\d", "а-я", "\\pL"])
def test_characters_of_words(inner: str) -> None:
    """They have no space and no punctuation among them."""
    assert of_class(inner).of_word


@pytest.mark.parametrize("inner", ["\\S", "^\\n", "a-z.", "\\s\\W_", "a@"])
def test_characters_of_no_word(inner: str) -> None:
    """They may be a space, or a sign."""
    assert not of_class(inner).of_word


def test_length_counts_letters_and_digits() -> None:
    """A word may be as long as words are; what is between words counts nothing; else there is no bound."""
    assert of_strings(frozenset({"a-b", "né9"})).length == 2
    assert times(of_class("\\w"), 1, inf).length == LONG_WORD
    assert times(of_class("\\s\\W"), 1, inf).length == 0
    assert times(of_class("^\\n"), 0, 140).length == 140
    assert times(of_class("^\\n"), 0, inf).length == inf
    assert times(of_strings(frozenset({"ab"})), 1, inf).length == inf


def test_what_is_repeated() -> None:
    """Few strings a few times are still exact; at least once is needed once; what may be missing is nothing to need."""
    digit = of_class("\\d")
    assert times(digit, 1, 3).exact == frozenset({DIGIT, DIGIT * 2, DIGIT * 3})
    assert times(digit, 2, inf) == Part(None, (frozenset({DIGIT * 2}),), LONG_WORD)
    assert times(digit, 0, inf) == Part(None, (), LONG_WORD)
    assert times(ANY, 2, 5) == Part(None, (), 5)
    assert times(of_class("\\s"), 0, inf).exact == frozenset({"", BETWEEN})


def test_what_is_between_words_is_so_once() -> None:
    """However it is put together."""
    edge = frozenset({BETWEEN})
    assert joined([edge, frozenset({"a"}), edge, edge]) == {f"{BETWEEN}a{BETWEEN}"}
