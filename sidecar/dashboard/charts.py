"""Computes the geometry of charts for templates. Every chart has its numbers in a table beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sidecar.storage import Bucket

LEFT, BOTTOM, TOP = 44, 22, 8


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a drawing in its own units, and how many times its axis names at most."""

    width: int
    height: int
    labels: int


WIDE, SMALL = Size(760, 190, 6), Size(400, 130, 3)


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
    """Columns over time with their axes, in the units of the drawing. `slot`: the width of a time step."""

    columns: list[Column]
    values: list[Mark]
    times: list[Mark]
    size: Size
    slot: float
    left: int = LEFT


@dataclass(frozen=True, slots=True)
class Slot:
    """One time step of a line chart, with the value of each curve; None where there is none."""

    at: datetime
    x: float
    values: dict[str, int | None]


Point = tuple[float, float]
"""In the units of a drawing, from its upper left corner."""


@dataclass(frozen=True, slots=True)
class LineChart:
    """Curves over time. `paths`: by name, in the notation of SVG, interrupted where a step has no value.

    `points`: the values between two steps without one, through which no line leads.
    """

    slots: list[Slot]
    paths: dict[str, str]
    points: dict[str, list[Point]]
    values: list[Mark]
    times: list[Mark]
    size: Size
    slot: float
    left: int = LEFT


def over_time(buckets: Sequence[Bucket], step: timedelta, size: Size = WIDE) -> Chart:
    """The chart of scans over time; empty without buckets."""
    ceiling = nice(max((bucket.scans for bucket in buckets), default=0))
    floor, room = size.height - BOTTOM, size.height - BOTTOM - TOP
    slot = (size.width - LEFT) / max(1, len(buckets))
    columns = []
    for index, bucket in enumerate(buckets):
        split = floor - room * bucket.blocked / ceiling
        top = floor - room * bucket.scans / ceiling
        columns.append(Column(_r(LEFT + index * slot), _r(slot * 0.82), _r(top), _r(split), floor, bucket))
    times = _times([(column.x, column.bucket.at) for column in columns], step, size)
    return Chart(columns, _axis(ceiling, size), times, size, slot)


def lines(
    starts: Sequence[datetime], curves: Mapping[str, Sequence[int | None]], step: timedelta, size: Size = WIDE
) -> LineChart:
    """The chart of curves with a value, or none, for each time step."""
    ceiling = nice(max((value for curve in curves.values() for value in curve if value is not None), default=0))
    slot = (size.width - LEFT) / max(1, len(starts))
    slots = [
        Slot(at, _r(LEFT + index * slot), {name: curve[index] for name, curve in curves.items()})
        for index, at in enumerate(starts)
    ]
    runs = {name: list(_runs([item.values[name] for item in slots], slots, slot, ceiling, size)) for name in curves}
    return LineChart(
        slots,
        {name: "".join(map(_path, parts)) for name, parts in runs.items()},
        {name: [run[0] for run in parts if len(run) == 1] for name, parts in runs.items()},
        _axis(ceiling, size),
        _times([(item.x, item.at) for item in slots], step, size),
        size,
        slot,
    )


def _runs(
    values: Sequence[int | None], slots: Sequence[Slot], slot: float, ceiling: int, size: Size
) -> Iterator[list[Point]]:
    """The points of steps in a row that have a value, each in the middle of its step."""
    floor, room = size.height - BOTTOM, size.height - BOTTOM - TOP
    run: list[Point] = []
    for value, item in zip(values, slots, strict=True):
        if value is not None:
            run.append((_r(item.x + slot / 2), _r(floor - room * value / ceiling)))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _path(run: Sequence[Point]) -> str:
    """A line through the points; none through a single one."""
    return "M" + "L".join(f"{x} {y}" for x, y in run) if len(run) > 1 else ""


def _axis(ceiling: int, size: Size) -> list[Mark]:
    floor, room = size.height - BOTTOM, size.height - BOTTOM - TOP
    return [Mark(_r(floor - room * part), f"{ceiling * part:,.0f}") for part in (0, 0.5, 1)]


def _times(places: Sequence[tuple[float, datetime]], step: timedelta, size: Size) -> list[Mark]:
    every = max(1, math.ceil(len(places) / size.labels))
    form = "%H:%M" if step * len(places) <= timedelta(days=1) else "%b %d"
    return [Mark(x, at.strftime(form)) for x, at in places[::every]]


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
