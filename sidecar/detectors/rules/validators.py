"""Validators that a rule can name (`validate:`), for data with a checksum or a fixed structure.

A validator gets the whole hit, including the words that introduce it, and decides whether it is what it looks like. It
never raises and takes microseconds; the caller limits how many hits are validated.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from itertools import pairwise

import re2
from stdnum import bitcoin, iban, luhn

from sidecar.detectors.rules.phone_numbers import after_call_word, digits, international, national, north_american
from sidecar.util import json

Check = Callable[[str], bool]
BRANDS = (
    (("4",), {16, 19}),
    (("34", "37"), {15}),
    (("51", "52", "53", "54", "55", *map(str, range(2221, 2721))), {16}),
    (("6011", "64", "65", "62", "60", "81", "82"), {16, 17, 18, 19}),
    (("35",), {16, 17, 18, 19}),
    (("2131", "1800"), {15}),
    (("30", "36", "38", "39"), {14, 16}),
    (("50", "56", "57", "58", "63", "67", "69"), set(range(14, 20))),
    (("220",), {16}),
)
"""Prefixes and lengths of card numbers by brand; those of 12 and 13 digits are article numbers today, and no cards."""
BASE58 = {c: i for i, c in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")}
MIN_BIRTH_YEAR = 1900
"""Earlier births are not personal data of a living person."""
MIN_DISTINCT = 10
"""Distinct characters in a randomly generated value."""
MIN_IP_LENGTH = 9
"""Characters; section and version numbers (7.3.5.1) are shorter, and so are well-known public servers."""
IBAN_LENGTHS = range(15, 35)
_NOT_A_STREET = re2.compile(
    r"(?i)\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|am|pm|percent|million|billion|people|and|or|to|of|in|the|is|"
    r"vs|years?|days?|hours?|minutes?|km|kg|cm|mm|mb|gb|chapters?|pages?|version|points?|steps?|times?|x)"
    r"(?:[a-z]{0,6})?\b"
)
_NUMBERS = re2.compile(r"\d+")
_JSON_ESCAPE = re2.compile(r"\\u[0-9a-fA-F]{4}")


def _luhn(text: str) -> bool:
    number = digits(text)
    return len(set(number)) > 1 and bool(luhn.is_valid(number))


def _card(text: str) -> bool:
    number = digits(text)
    if "." in text:  # a fraction, or a number with one
        return False
    fits = any(number.startswith(prefixes) and len(number) in lengths for prefixes, lengths in BRANDS)
    return fits and _luhn(number)


def _iban(text: str) -> bool:
    """Whether it is or begins with an IBAN: a short word after it may have been matched as its end."""
    compact = "".join(c for c in text.upper() if c.isascii() and c.isalnum())
    return any(_mod97(compact[:n]) and _valid(iban, compact[:n]) for n in IBAN_LENGTHS if n <= len(compact))


def _mod97(number: str) -> bool:
    return int("".join(str(int(c, 36)) for c in number[4:] + number[:4])) % 97 == 1


def _ip(text: str) -> bool:
    """A globally reachable address; not a section number, a mask or a private network."""
    if len(text) < MIN_IP_LENGTH:
        return False
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_private or address.is_loopback or address.is_multicast or address.is_unspecified) and (
        address.version == 6 or len(set(text.split("."))) > 2
    )


def _mac(text: str) -> bool:
    """Exactly six bytes (a fingerprint has more), not all the same."""
    parts = text.lower().replace("-", ":").split(":")
    return len(parts) == 6 and len(set(parts)) > 2


def _wallet(text: str) -> bool:
    return _base58check(text) or _valid(bitcoin, text)


def _base58check(text: str) -> bool:
    """Version byte, hash and four bytes of a double SHA-256, the address format of Bitcoin and related currencies."""
    number = 0
    for c in text:
        if c not in BASE58:
            return False
        number = number * 58 + BASE58[c]
    if number.bit_length() > 25 * 8:
        return False
    raw = number.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(raw[:21]).digest()).digest()[:4] == raw[21:]


def _varied(text: str) -> bool:
    """Not a placeholder such as `sk-xxxxxxxx`."""
    return len(set(text)) >= MIN_DISTINCT and "xxxx" not in text.lower()


def _token_live(text: str) -> bool:
    """A JSON web token that has not expired."""
    expiry = _claims(text).get("exp")
    return isinstance(expiry, int | float) and expiry > datetime.now(UTC).timestamp()


def _token_undated(text: str) -> bool:
    """A JSON web token without expiry, or an example."""
    claims = _claims(text)
    return bool(claims) and "exp" not in claims


def _claims(text: str) -> dict[str, object]:
    """The claims of a token; empty if it cannot be decoded."""
    part = ("." + text).split(".")[-2]
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}


def _birth(text: str) -> bool:
    """A date in a year in which a living person may have been born, or a date without century."""
    parts = [int(part) for part in _NUMBERS.findall(text)]
    years = (part for part in parts if part > 99)
    return all(MIN_BIRTH_YEAR <= year <= datetime.now(UTC).year for year in years)


def _street(text: str) -> bool:
    return not _NOT_A_STREET.search(text)


def _us_ssn(text: str) -> bool:
    number = digits(text)
    is_ascending = all(int(b) - int(a) == 1 for a, b in pairwise(number[:8]))
    return _valid(import_module("stdnum.us.ssn"), number) and not is_ascending


def _valid(module: object, text: str) -> bool:
    """The verdict of a stdnum module. stdnum is meant not to raise; here it cannot."""
    try:
        return text.isascii() and bool(module.is_valid(text))  # type: ignore[attr-defined]
    except (ValueError, LookupError, TypeError, ArithmeticError):
        return False


def _number(name: str) -> Check:
    """A number of digits only; the words around it contain none."""
    module = import_module(f"stdnum.{name}")
    return lambda text: len(set(digits(text))) > 1 and _valid(module, digits(text))


def _code(name: str) -> Check:
    """A number with letters in it: the hit is exactly the number."""
    module = import_module(f"stdnum.{name}")
    return lambda text: _valid(module, text)


NUMBERS = [
    "de.idnr",
    "fr.nir",
    "br.cpf",
    "in_.aadhaar",
    "gb.nhs",
    "ca.sin",
    "au.tfn",
    "nl.bsn",
    "be.nn",
    "pl.pesel",
    "se.personnummer",
    "no.fodselsnummer",
    "dk.cpr",
    "cz.rc",
    "ro.cnp",
    "bg.egn",
    "tr.tckimlik",
    "kr.rrn",
    "za.idnr",
    "il.idnr",
    "gr.amka",
    "ch.ssn",
    "at.vnr",
    "ru.inn",
    "hr.oib",
    "us.itin",
    "us.ein",
]
CODES = [
    "es.dni",
    "es.nie",
    "it.codicefiscale",
    "in_.pan",
    "fi.hetu",
    "mx.curp",
    "cn.ric",
    "cl.rut",
    "ie.pps",
    "my.nric",
]


def _unescaped(text: str) -> bool:
    """Whether it has no JSON escapes, in which letters and digits alternate as in leetspeak."""
    return not _JSON_ESCAPE.search(text)


CHECKS: dict[str, Check] = {
    "luhn": _luhn,
    "card": _card,
    "iban": _iban,
    "ip": _ip,
    "mac": _mac,
    "wallet": _wallet,
    "varied": _varied,
    "token_live": _token_live,
    "token_undated": _token_undated,
    "birth": _birth,
    "street": _street,
    "phone_international": international,
    "phone_north_american": north_american,
    "phone_national": national,
    "phone_spoken_of": after_call_word,
    "unescaped": _unescaped,
    "us.ssn": _us_ssn,
    **{name: _number(name) for name in NUMBERS},
    **{name: _code(name) for name in CODES},
}
"""Name -> validator. Names with a dot are modules of python-stdnum."""
