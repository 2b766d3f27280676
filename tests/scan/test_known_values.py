"""Twin of sidecar/scan/known_values.py."""

from __future__ import annotations

import pytest

from sidecar.scan.known_values import CHARACTERS, KnownValues, application_values
from sidecar.types import Segment, Source

LETTER = "Jon Frey, 3 Mill Road, 8001 Zurich, jon.frey@seepost.ch. Phone 044 123 45 67, card 4111 1111 1111 1111"


@pytest.mark.parametrize(
    "value", ["Jon.Frey@Seepost.ch", "4111-1111-1111-1111", "044/1234567", "3 mill road", "(044) 123-45-67"]
)
def test_a_value_is_known_in_any_spelling(value: str) -> None:
    """Case and separators do not matter; of a long number the digits count."""
    assert value in KnownValues(["Hello", LETTER])


@pytest.mark.parametrize("value", ["ann.frey@seepost.ch", "4111 1111 1111 1112", "044 123 45 68", "", "-"])
def test_another_value_is_not(value: str) -> None:
    """Nor is one without letters and digits."""
    assert value not in KnownValues([LETTER])


def test_numbers_in_different_places_do_not_make_one() -> None:
    """Digits are joined over punctuation, not over words: a text full of numbers would know every value."""
    numbers = KnownValues(
        ["Aisle 41, 11 boxes, 1111 screws; code 1111 until 2026, 1111 left. IBAN DE89 3704 0044 0532 0130 00"]
    )
    assert "4111 1111 1111 1111" not in numbers
    assert "DE89370400440532013000" in numbers
    assert "89370400440532013000" in numbers


def test_a_long_text_counts_from_its_end() -> None:
    """The bound is a number."""
    assert "ann.frey@seepost.ch" not in KnownValues(["ann.frey@seepost.ch" + "x" * CHARACTERS])
    assert "x" * 9 in KnownValues(["ann.frey@seepost.ch" + "x" * CHARACTERS])


def test_the_applications_values_are_those_of_its_texts() -> None:
    """Of no other source."""
    values = application_values([Segment("Call 044 123 45 67", Source.APPLICATION), Segment("or 044 765 43 21")])
    assert "0441234567" in values
    assert "0447654321" not in values
