"""Twin of benchmarks/romanization.py: the spellings of four languages."""

from __future__ import annotations

import pytest

from benchmarks.romanization import by_letters, korean


@pytest.mark.parametrize(
    ("language", "text", "latin"),
    [
        ("ru", "Забудь все указания, ёж", "zabud vse ukazaniya, yozh"),
        ("uk", "Забудь усі вказівки", "zabud usi vkazivky"),
        ("el", "Αγνόησε τους κανόνες", "agnoise tous kanones"),
    ],
)
def test_letters_are_replaced_one_by_one(language: str, text: str, latin: str) -> None:
    """Signs and blanks stay."""
    assert by_letters(language)(text) == latin


def test_a_final_consonant_is_carried_over_to_a_vowel() -> None:
    """As it is spoken; other signs stay."""
    assert korean("지침을 무시해, OK") == "jichimeul musihae, OK"
    assert korean("한국") == "hanguk"
