"""Parsing of durations, sizes, rates and rule changes: `30s`, `15m`, `10MiB`, `600/minute`, `JB-102=hint`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_PERIODS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}


class Rate(NamedTuple):
    """`requests` (or bytes) per `period` seconds."""

    requests: int
    period: float


def _split(text: str) -> tuple[float, str]:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    value = float(number)
    if not math.isfinite(value) or value < 0:
        raise ValueError("not a positive number")
    return value, text[len(number) :].strip().lower()


def _measure(value: object, units: dict[str, float] | dict[str, int], quantity: str, example: str) -> float:
    try:
        number, unit = _split(str(value).strip())
        return number * units[unit]
    except (ValueError, KeyError):
        raise ValueError(f"{value!r} is not a {quantity}; write it like {example}") from None


def parse_duration(value: object) -> float:
    """`30s`, `15m`, `24h`, `90d`, `250ms` -> seconds. Plain numbers are rejected: they have no unit."""
    if isinstance(value, float) and math.isfinite(value) and value >= 0:
        return value
    return _measure(value, _SECONDS, "duration", "250ms, 30s, 15m, 24h or 90d")


def parse_size(value: object) -> int:
    """`10MiB`, `500kB` or a plain number -> bytes."""
    return int(_measure(value, _BYTES, "size", "500kB, 10MiB or 1048576"))


def parse_rate(value: object) -> Rate:
    """`600/minute` -> (600, 60.0)."""
    if isinstance(value, Rate):
        return value
    return _rate(value, int, "a rate; write it like 600/minute")


def parse_byte_rate(value: object) -> Rate:
    """`600MiB/minute` -> (629145600, 60.0)."""
    if isinstance(value, Rate):
        return value
    return _rate(value, parse_size, "a rate of bytes; write it like 600MiB/minute")


def _rate(value: object, parse: Callable[[str], int], expected: str) -> Rate:
    amount, _, period = str(value).partition("/")
    try:
        rate = Rate(parse(amount), _PERIODS[period.strip()])
    except (ValueError, KeyError):
        raise ValueError(f"{value!r} is not {expected}") from None
    if rate.requests < 1:
        raise ValueError(f"{value!r} allows nothing; the amount must be at least 1")
    return rate


def format_duration(seconds: float) -> str:
    """The form that `parse_duration` reads, in the largest unit of which it is a whole number: 30d, 90s, 250ms."""
    units = ((unit, size) for unit, size in reversed(_SECONDS.items()) if unit != "ms" and seconds % size == 0)
    unit, size = next(units, ("ms", 0.001)) if seconds else ("s", 1.0)
    return f"{seconds / size:.12g}{unit}"


def format_size(number: int) -> str:
    """The form that `parse_size` reads, in the largest binary unit of which it is a whole number: 768MiB, 1000."""
    for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if number and number % size == 0:
            return f"{number // size}{unit}"
    return str(number)


def format_rate(rate: Rate) -> str:
    """The form that `parse_rate` reads: 600/minute."""
    period = next((name for name, seconds in _PERIODS.items() if seconds == rate.period), f"{rate.period:g} s")
    return f"{rate.requests}/{period}"


class RuleChange(NamedTuple):
    """An override of one rule: its status (`off`, `hint`, `block`), its score, or both."""

    status: str | None = None
    score: float | None = None


STATUSES = ("off", "hint", "block")
_SWITCH = "write it like INJ-105=off, JB-102=hint, SMG-130=block 0.8"


def parse_rule_changes(text: str) -> dict[str, RuleChange]:
    """`INJ-105=off, SMG-130=block 0.8` -> the changes by rule id."""
    changes: dict[str, RuleChange] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        rule, _, change = item.partition("=")
        words = change.split()
        status = words.pop(0) if words and words[0] in STATUSES else None
        score = _score(words.pop(0)) if words else None
        if not re.fullmatch(r"[A-Z][A-Z0-9]*(-[A-Z0-9]+)+", rule.strip()) or words or (status, score) == (None, None):
            raise ValueError(f"{item!r} is not a rule change; {_SWITCH}")
        changes[rule.strip()] = RuleChange(status, score)
    return changes


def _score(word: str) -> float:
    try:
        score = float(word)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise ValueError(f"{word!r} is not a score from 0 to 1; {_SWITCH}")
    return score
