"""Phone numbers: recognises the formats here, checks numbering plans with `phonenumbers`."""

from __future__ import annotations

from functools import cache
from typing import Any

import phonenumbers
import re2

DIGIT_COUNTS = range(6, 16)
"""Digits of a number that someone is asked to call; 15 is the limit of E.164."""
MIN_NATIONAL_DIGITS = 9
"""Digits including the zero; similar-looking dates and times have fewer."""
REGIONS = [
    "AT",
    "AU",
    "BE",
    "BR",
    "CH",
    "CZ",
    "DE",
    "DK",
    "EG",
    "ES",
    "FI",
    "FR",
    "GB",
    "GR",
    "HU",
    "IE",
    "IL",
    "IN",
    "IT",
    "JP",
    "KR",
    "MX",
    "NL",
    "NO",
    "NZ",
    "PK",
    "PL",
    "PT",
    "RO",
    "RU",
    "SE",
    "TR",
    "TW",
    "UA",
    "VN",
    "ZA",
]
"""Regions whose national numbers are recognised without a country code."""
_DATE = re2.compile(r"(?:19|20)\d\d[-/. ]\d\d?[-/. ]\d\d?|\d\d?[-/. ]\d\d?[-/. ](?:19|20)\d\d")
_EXTENSION = re2.compile(r"(?i)(?:x|ext\.?) ?\d+\D*$")


def international(text: str) -> bool:
    """`+` or `00`, an existing country code and a number of digits valid for that country."""
    number_text = _without_extension(text)
    start = max(number_text.find("+"), 0)
    number = "+" + digits(number_text[start:]).removeprefix("00")
    try:
        return bool(phonenumbers.is_possible_number(phonenumbers.parse(number, None)))
    except phonenumbers.NumberParseException:
        return False


def north_american(text: str) -> bool:
    """Ten digits with a valid first digit of the area code."""
    number = digits(_without_extension(text))[-10:]
    return len(number) == 10 and number[0] in "23456789" and len(set(number)) > 2


def national(text: str) -> bool:
    """A trunk `0` and then a number of the plan of one of `REGIONS`."""
    number = digits(text)
    return (
        len(number) >= MIN_NATIONAL_DIGITS
        and len(set(number)) > 2
        and not _DATE.search(text)
        and bool(_national_plans().fullmatch(number.lstrip("0")))
    )


def after_call_word(text: str) -> bool:
    """Next to words such as "call": any digits that are not a date, a year or one repeated digit."""
    number_text = _without_extension(text)
    number = digits(number_text)
    return len(number) in DIGIT_COUNTS and len(set(number)) > 2 and not _DATE.search(number_text)


def digits(text: str) -> str:
    """The ASCII digits only."""
    return "".join(c for c in text if "0" <= c <= "9")


def _without_extension(text: str) -> str:
    """The number without its extension."""
    return str(_EXTENSION.sub("", text))


@cache
def _national_plans() -> Any:
    """One automaton for the national numbers of all `REGIONS`: a microsecond instead of forty for each."""
    metadata = (phonenumbers.PhoneMetadata.metadata_for_region(region) for region in REGIONS)
    plans = (plan.general_desc.national_number_pattern for plan in metadata if plan and plan.general_desc)
    return re2.compile("|".join(f"(?:{plan})" for plan in plans))
