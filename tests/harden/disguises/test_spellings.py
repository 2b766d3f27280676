"""Twin of sidecar/harden/disguises/spellings.py."""

from __future__ import annotations

from sidecar.harden.disguises import spellings


def test_letters_are_left_out_or_swapped() -> None:
    """Inner ones of longer words; every sixth of the text."""
    assert spellings.one_dropped("the rules") == "the rues"
    assert spellings.sixth_dropped("abcdefg") == "abcdeg"
    assert spellings.keyboard_slips("rules") == "rukes"


def test_words_are_written_otherwise() -> None:
    """Digits, reverse order, numbers, keys, first letters."""
    assert spellings.leet("Test") == "7357"
    assert spellings.reversed_words("ab cd") == "ba dc"
    assert spellings.numbers("ab c") == "1-2 / 3"
    assert spellings.keypad("ad") == "2 3"
    assert spellings.acrostic("ab").endswith("\napple banana")
    assert spellings.alternating_case("abc") == "aBc"
    assert spellings.starred_vowels("rules") == "r*l*s"
