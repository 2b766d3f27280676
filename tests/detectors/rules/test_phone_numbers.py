"""Recognition of phone numbers."""

from __future__ import annotations

import pytest

from sidecar.detectors.rules.phone_numbers import (
    REGIONS,
    after_call_word,
    digits,
    international,
    national,
    north_american,
)


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("+49 30 2312504", True),
        ("0044 20 7946 0018", True),
        ("+1-604-555-0142x31", True),
        ("+999 12 345 678", False),
        ("+49 3", False),
        ("+", False),
        ("", False),
    ],
)
def test_a_country_code_must_exist_and_the_length_must_fit(text: str, sound: bool) -> None:
    """With `+` or `00`; an extension is not counted."""
    assert international(text) is sound


@pytest.mark.parametrize(
    ("text", "sound"),
    [("604-555-0142", True), ("1 (604) 555-0142", True), ("104-555-0142", False), ("555-0142", False)],
)
def test_north_american_areas_do_not_begin_with_one(text: str, sound: bool) -> None:
    """Ten digits are accepted after any prefix."""
    assert north_american(text) is sound


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("030 2312 5042", True),
        ("0171-2312504", True),
        ("01-02-2024", False),
        ("05-18 16", False),
        ("000 0000 000", False),
    ],
)
def test_a_national_number_fits_the_plan_of_some_country(text: str, sound: bool) -> None:
    """Dates and repeated digits are rejected."""
    assert national(text) is sound


@pytest.mark.parametrize(
    ("text", "sound"),
    [("call me at 481 77 29", True), ("call me at 12", False), ("call on 2024-11-21", False), ("call 1111111", False)],
)
def test_words_make_a_number_of_what_has_no_plan(text: str, sound: bool) -> None:
    """Digits after a call word count unless a date or too short."""
    assert after_call_word(text) is sound


def test_all_countries_are_asked_at_once() -> None:
    """Every region named is known to the library, and only ASCII digits count."""
    assert len(REGIONS) == len(set(REGIONS))
    assert digits("٣4 5x6") == "456"
