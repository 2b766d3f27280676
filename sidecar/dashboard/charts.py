"""Computes the geometry of charts for templates. Every chart has its numbers in a table beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sidecar.storage import Bucket

WIDTH, HEIGHT = 760, 190
LEFT, BOTTOM, TOP = 44, 22, 8
MOST_LABELS = 6


@dataclass(frozen=True, slots=True)
class Column:
    """One time bucket: a column with refused requests at the bottom and the others stacked on them."""

    x: float
    width: float
    top: float
    split: float
    bottom: float
    bucket: Bucket


@dataclass(frozen=True, slots=True)
class Mark:
    """A line or a label of an axis at `place`."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns over time with their axes, in the units of the drawing."""

    columns: list[Column]
    values: list[Mark]
    times: list[Mark]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT


def over_time(buckets: Sequence[Bucket], step: timedelta) -> Chart:
    """The chart of scans over time; empty without buckets."""
    ceiling = nice(max((bucket.scans for bucket in buckets), default=0))
    floor, room = HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP
    slot = (WIDTH - LEFT) / max(1, len(buckets))
    columns = []
    for index, bucket in enumerate(buckets):
        split = floor - room * bucket.blocked / ceiling
        top = floor - room * bucket.scans / ceiling
        columns.append(Column(_r(LEFT + index * slot), _r(slot * 0.82), _r(top), _r(split), floor, bucket))
    values = [Mark(_r(floor - room * part), f"{ceiling * part:,.0f}") for part in (0, 0.5, 1)]
    return Chart(columns, values, _times(columns, step))


def _times(columns: Sequence[Column], step: timedelta) -> list[Mark]:
    every = max(1, math.ceil(len(columns) / MOST_LABELS))
    form = "%H:%M" if step * len(columns) <= timedelta(days=1) else "%b %d"
    return [Mark(column.x, column.bucket.at.strftime(form)) for column in columns[::every]]


def nice(highest: int) -> int:
    """A round number for the top of an axis, not far above `highest`; at least 2."""
    if highest <= 2:
        return 2
    size = 10 ** (len(str(highest)) - 1)
    return next(int(size * part) for part in (1, 2, 4, 5, 6, 8, 10) if size * part >= highest)


def share(part: float, whole: float) -> float:
    """A part of a whole in percent; 0 if the whole is 0."""
    return _r(100 * part / whole) if whole else 0.0


def time_range(now: datetime, length: timedelta, step: timedelta) -> tuple[datetime, datetime]:
    """Start and end of a range of whole steps, the last of which contains `now`."""
    seconds = int(step.total_seconds())
    end = now.replace(microsecond=0) + timedelta(seconds=seconds - int(now.timestamp()) % seconds)
    return end - length, end


def _r(value: float) -> float:
    return round(value, 1)
