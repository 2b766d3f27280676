"""Durations, sizes and rates as people write them: `30s`, `15m`, `10MiB`, `600/minute`."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_PERIODS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}


class Rate(NamedTuple):
    """So many requests per so many seconds."""

    requests: int
    period: float


def _split(text: str) -> tuple[float, str]:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    value = float(number)
    if not math.isfinite(value) or value < 0:
        raise ValueError("not a positive number")
    return value, text[len(number) :].strip().lower()


def _measure(value: object, table: dict[str, float] | dict[str, int], what: str, example: str) -> float:
    try:
        number, unit = _split(str(value).strip())
        return number * table[unit]
    except (ValueError, KeyError):
        raise ValueError(f"{value!r} is not a {what}; write it like {example}") from None


def parse_duration(value: object) -> float:
    """`30s`, `15m`, `24h`, `90d`, `250ms` -> seconds. Plain numbers are refused: they name no unit."""
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
    count, _, period = str(value).partition("/")
    try:
        rate = Rate(int(count), _PERIODS[period.strip()])
    except (ValueError, KeyError):
        raise ValueError(f"{value!r} is not a rate; write it like 600/minute") from None
    if rate.requests < 1:
        raise ValueError(f"{value!r} allows nothing; the count must be at least 1")
    return rate


def show_rate(rate: Rate) -> str:
    """As `parse_rate` reads it: 600/minute."""
    period = next((name for name, seconds in _PERIODS.items() if seconds == rate.period), f"{rate.period:g} s")
    return f"{rate.requests}/{period}"


class Switch(NamedTuple):
    """What is changed of one rule: its status (`off`, `hint`, `block`), its score, or both."""

    status: str | None = None
    score: float | None = None


STATUSES = ("off", "hint", "block")
_SWITCH = "write it like INJ-105=off, JB-102=hint, SMG-130=block 0.8"


def parse_switches(text: str) -> dict[str, Switch]:
    """`INJ-105=off, SMG-130=block 0.8` -> the changes by rule."""
    found: dict[str, Switch] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        rule, _, change = item.partition("=")
        words = change.split()
        status = words.pop(0) if words and words[0] in STATUSES else None
        score = _score(words.pop(0)) if words else None
        if not re.fullmatch(r"[A-Z][A-Z0-9]*(-[A-Z0-9]+)+", rule.strip()) or words or (status, score) == (None, None):
            raise ValueError(f"{item!r} is no change of a rule; {_SWITCH}")
        found[rule.strip()] = Switch(status, score)
    return found


def _score(word: str) -> float:
    try:
        score = float(word)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise ValueError(f"{word!r} is no score from 0 to 1; {_SWITCH}")
    return score
