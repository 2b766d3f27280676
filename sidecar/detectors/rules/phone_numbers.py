"""Which digits are a telephone number: shapes here, numbering plans from `phonenumbers`."""

from __future__ import annotations

from functools import cache
from typing import Any

import phonenumbers
import re2

DIGIT_COUNTS = range(6, 16)
"""Digits of a number that somebody is asked to call; 15 is the limit of E.164."""
MIN_NATIONAL_DIGITS = 9
"""Digits, the zero included; dates and times that look alike have fewer."""
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
"""Whose national numbers are known when no country is said."""
_DATE = re2.compile(r"(?:19|20)\d\d[-/. ]\d\d?[-/. ]\d\d?|\d\d?[-/. ]\d\d?[-/. ](?:19|20)\d\d")
_EXTENSION = re2.compile(r"(?i)(?:x|ext\.?) ?\d+\D*$")


def international(text: str) -> bool:
    """`+` or `00`, a country code that exists and as many digits as that country has."""
    number_text = _without_extension(text)
    start = max(number_text.find("+"), 0)
    number = "+" + digits(number_text[start:]).removeprefix("00")
    try:
        return bool(phonenumbers.is_possible_number(phonenumbers.parse(number, None)))
    except phonenumbers.NumberParseException:
        return False


def north_american(text: str) -> bool:
    """Ten digits whose area and exchange may begin so."""
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
    """After or before words such as "call": any digits that are not a date, a year or one figure repeated."""
    number_text = _without_extension(text)
    number = digits(number_text)
    return len(number) in DIGIT_COUNTS and len(set(number)) > 2 and not _DATE.search(number_text)


def digits(text: str) -> str:
    """The ASCII digits alone."""
    return "".join(c for c in text if "0" <= c <= "9")


def _without_extension(text: str) -> str:
    """Without the extension."""
    return str(_EXTENSION.sub("", text))


@cache
def _national_plans() -> Any:
    """One automaton for the national numbers of all `REGIONS`: a microsecond instead of forty for each of them."""
    metadata = (phonenumbers.PhoneMetadata.metadata_for_region(region) for region in REGIONS)
    plans = (plan.general_desc.national_number_pattern for plan in metadata if plan and plan.general_desc)
    return re2.compile("|".join(f"(?:{plan})" for plan in plans))
