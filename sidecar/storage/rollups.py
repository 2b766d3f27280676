"""Hourly totals of the scan log, written in the same transactions as its rows, so that the two always agree.

A page over a month reads a few thousand totals instead of millions of decisions: those of whole days, and of the hours
at both ends. There is one total for all decisions
of an hour, and one for each key, model, layer, label, rule and rounded latency, and of each layer that ran one with its
time (`cost`). After a migration of a filled database totals that are new begin two hours later, when no replica of the
former version writes rows without them.

Only scans count there (`is_scan`); other decisions, such as a refused path, have a total of their own by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, delete, func, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from sidecar.storage.database import Database
from sidecar.storage.schema import hourly as table

HOUR = 3600
DAY = 24
"""Hours of a day, of which there are totals of names, too."""
Dimension = Literal["all", "key", "model", "layer", "label", "rule", "latency", "other", "cost"]
FIRST, FIRST_COST = "first", "1stcost"
"""The dimensions of single rows that name the first hours with totals, and with those of `cost`; without one there is a
total of every hour."""
DAILY: dict[str, str] = {name: f"d{name}" for name in ("key", "model", "layer", "label", "rule", "latency", "other")}
"""The dimensions with many names, and those of their daily totals, at the first hour of each day."""
COUNTS = ("scans", "blocked", "recommended", "unscanned", "failed")
NUMBERS = (*COUNTS, "microseconds")
Names = str | ScalarSelect[Any] | Select[Any]
"""A name, a query of one name, or a query of several."""
_Totals = dict[tuple[str, int, str], list[int]]


NO_SCANS = ("route_not_allowed", "not_found", "upgrade_refused")
"""Failures of requests that nobody would have scanned."""
NOT_SCANNED = "none"
"""The layer of a decision that no layer made: nothing was read, or there was nothing to scan."""
UNKNOWN_ROUTE = "unknown_route"
"""What is unscanned of a request for a path that is not served, where it is forwarded all the same."""
COUNTED = (
    "at",
    "door",
    "segments",
    "action",
    "recommended",
    "unscanned",
    "failure",
    "key_id",
    "model",
    "layer_used",
    "threats",
    "latency_ms",
    "findings",
    "layers",
)
"""The columns that are counted: those of a `DecisionRow`, and those that a deletion returns."""


class Hours(NamedTuple):
    """Whole hours since 1970, from `first` to before `end`; None: without a bound."""

    first: int | None = None
    end: int | None = None


class RollUps:
    """The table of hourly totals. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._first_hour: int | None = None
        self._first_hour_of_costs = 0

    async def add(self, connection: AsyncConnection, rows: Iterable[Any], sign: Literal[1, -1] = 1) -> None:
        """Add rows to the totals, or subtract them, within the transaction of `connection`.

        Totals are locked in one order, so that transactions wait for each other and never block each other.
        """
        first = await self.first_hour(connection)
        totals = _totals((row for row in rows if _hour(row) >= first), self._first_hour_of_costs)
        if not totals:
            return
        values = [dict(zip(_COLUMNS, (*key, *(sign * n for n in totals[key])), strict=True)) for key in sorted(totals)]
        upsert = self._database.insert(table)
        added = {name: table.c[name] + upsert.excluded[name] for name in NUMBERS}
        await connection.execute(upsert.on_conflict_do_update(index_elements=_KEY, set_=added), values)
        if sign < 0:
            hours = table.c.hour.in_({hour for _, hour, _ in totals})
            empty = and_(table.c.scans == 0, table.c.dimension.not_in((FIRST, FIRST_COST)))
            await connection.execute(delete(table).where(hours, empty))

    async def first_hour(self, connection: AsyncConnection) -> int:
        """The first hour with totals; it never changes, nor does that of costs."""
        if self._first_hour is None:
            marks = select(table.c.dimension, table.c.hour).where(table.c.dimension.in_((FIRST, FIRST_COST)))
            hours = {dimension: int(hour) for dimension, hour in await connection.execute(marks)}
            self._first_hour_of_costs = hours.get(FIRST_COST, 0)
            self._first_hour = hours.get(FIRST, 0)
        return self._first_hour

    async def covers(self, hours: Hours) -> bool:
        """Whether there are totals of all these hours."""
        if self._first_hour is None:
            async with self._database.read() as connection:
                await self.first_hour(connection)
        return (hours.first or 0) >= (self._first_hour or 0)

    @property
    def first_hour_of_costs(self) -> int:
        """The first hour with totals of `cost`; known once `covers` has been asked."""
        return self._first_hour_of_costs

    async def sums(self, dimension: Dimension, hours: Hours, name: Names | None = "") -> list[int]:
        """The counts of one name or of several, or of all."""
        numbers = (func.coalesce(func.sum(table.c[number]), 0) for number in COUNTS)
        names = [] if name is None else [_is_of(name)]
        rows = await self._rows(select(*numbers), Hours(), _within(dimension, hours), *names)
        return [int(number) for number in rows[0]]

    async def by_hour(
        self,
        dimension: Dimension,
        hours: Hours,
        name: Names = "",
        length: int = 1,
        count: Literal["blocked", "unscanned"] = "blocked",
    ) -> list[tuple[int, int, int]]:
        """Hour, decisions and `count` of the names, for steps of `length` hours; hours without any are left out."""
        sums = select(table.c.hour, func.sum(table.c.scans), func.sum(table.c[count])).group_by(table.c.hour)
        rows = await self._rows(sums, hours, _is(_in_steps(dimension, hours, length)), _is_of(name))
        return [(hour, int(scans), int(blocked)) for hour, scans, blocked in rows]

    async def by_step(self, dimension: Dimension, hours: Hours, length: int) -> list[tuple[int, str, int, int]]:
        """Index of the step of `length` hours, name, decisions and microseconds; hours without any are left out."""
        first = hours.first or 0
        step = ((table.c.hour - first) // length).label("step")
        sums = select(step, table.c.name, func.sum(table.c.scans), func.sum(table.c.microseconds))
        totals = _is(_in_steps(dimension, hours, length))
        rows = await self._rows(sums.group_by("step", table.c.name), hours, totals)
        return [(int(index), name, int(scans), int(time)) for index, name, scans, time in rows]

    async def by_name(
        self, dimension: Dimension, hours: Hours, limit: int | None = None, names: Names | None = None
    ) -> list[tuple[str, int, int]]:
        """Name, decisions and blocked, of some names or of all, the most frequent first."""
        scans = func.sum(table.c.scans)
        counts = select(table.c.name, scans, func.sum(table.c.blocked)).group_by(table.c.name)
        ranked = counts.order_by(scans.desc(), table.c.name).limit(limit)
        some = [] if names is None else [_is_of(names)]
        rows = await self._rows(ranked, Hours(), _within(dimension, hours), *some)
        return [(name, int(number), int(blocked)) for name, number, blocked in rows]

    async def newest(self, dimension: Dimension, hours: Hours, name: Names, scans: int) -> int | None:
        """The hour from which on there are at least so many scans of a name or of several; None if there are fewer."""
        kind, hour, missing = await self._reached(_within(dimension, hours), name, scans)
        if hour is None or kind == dimension:
            return hour
        of_day = and_(_is(dimension), *_bounds(Hours(hour, hour + DAY)))
        return (await self._reached(of_day, name, missing))[1]

    async def _reached(self, totals: ColumnElement[bool], name: Names, scans: int) -> tuple[str, int | None, int]:
        """Of the total that brings the newest ones to so many: its dimension, its hour, and what it adds to them."""
        sums = select(table.c.dimension, table.c.hour, func.sum(table.c.scans)).where(_is_of(name))
        newest_first = sums.group_by(table.c.dimension, table.c.hour).order_by(table.c.hour.desc())
        for kind, hour, number in await self._rows(newest_first, Hours(), totals):
            if number >= scans:
                return kind, int(hour), scans
            scans -= int(number)
        return "", None, scans

    async def _rows(self, statement: Any, hours: Hours, *extra: ColumnElement[bool]) -> list[Any]:
        async with self._database.read() as connection:
            return list(await connection.execute(statement.where(*_bounds(hours), *extra)))


def _is_of(name: Names) -> ColumnElement[bool]:
    return table.c.name.in_(name) if isinstance(name, Select) else table.c.name == name


def _in_steps(dimension: Dimension, hours: Hours, length: int) -> str:
    """The dimension of daily totals where the steps of `length` hours are whole days."""
    is_daily = dimension in DAILY and not (length % DAY or (hours.first or 0) % DAY or (hours.end or 0) % DAY)
    return DAILY[dimension] if is_daily else dimension


def _is(dimension: str) -> ColumnElement[bool]:
    """With the name in the statement: a partial index is not used for a parameter."""
    return table.c.dimension == literal_column(f"'{dimension}'")


_KEY = ("dimension", "hour", "name")
_COLUMNS = (*_KEY, *NUMBERS)


def _bounds(hours: Hours) -> list[ColumnElement[bool]]:
    bounds = [] if hours.first is None else [table.c.hour >= hours.first]
    return bounds + ([] if hours.end is None else [table.c.hour < hours.end])


def _within(dimension: Dimension, hours: Hours) -> ColumnElement[bool]:
    """The totals whose sum is that of these hours: of each whole day one, and of the hours before and after."""
    if dimension not in DAILY:
        return and_(table.c.dimension == dimension, *_bounds(hours))
    days = Hours(
        None if hours.first is None else -(-hours.first // DAY) * DAY,
        None if hours.end is None else hours.end // DAY * DAY,
    )
    if days.first is not None and days.end is not None and days.first >= days.end:
        return and_(table.c.dimension == dimension, *_bounds(hours))
    parts = [and_(table.c.dimension == DAILY[dimension], *_bounds(days))]
    if hours.first is not None:
        parts.append(and_(table.c.dimension == dimension, *_bounds(Hours(hours.first, days.first))))
    if hours.end is not None:
        parts.append(and_(table.c.dimension == dimension, *_bounds(Hours(days.end, hours.end))))
    return or_(*parts)


def _hour(row: Any) -> int:
    return int(row.at.timestamp()) // HOUR


def _totals(rows: Iterable[Any], first_hour_of_costs: int) -> _Totals:
    totals: _Totals = {}
    for row in rows:
        hour, blocked = _hour(row), row.action == "block"
        numbers = (1, blocked, row.recommended == "block", row.unscanned is not None, row.failure is not None, 0)
        for dimension, name in _names(row):
            _count(totals, (dimension, hour, name), numbers)
            if dimension in DAILY:
                _count(totals, (DAILY[dimension], hour // DAY * DAY, name), numbers)
        for layer, time in costs(row).items() if hour >= first_hour_of_costs else ():
            _count(totals, ("cost", hour, layer), (1, 0, 0, 0, 0, time))
    return totals


def _count(totals: _Totals, key: tuple[str, int, str], numbers: Sequence[int]) -> None:
    sums = totals.setdefault(key, [0] * len(NUMBERS))
    sums[:] = map(sum, zip(sums, numbers, strict=True))


def costs(row: Any) -> dict[str, int]:
    """The microseconds of each layer that ran; none of what was no scan."""
    times: dict[str, int] = {}
    for layer in row.layers if is_scan(row) else ():
        name = str(layer.get("layer"))
        times[name] = times.get(name, 0) + round(1000 * (layer.get("elapsed_ms") or 0))
    return times


def is_scan(row: Any) -> bool:
    """Whether texts were scanned, or should have been: no list of models, and no path that is not served.

    A prompt that was forwarded unscanned counts, even if none of its texts was scanned.
    """
    is_forwarded = row.unscanned is not None and row.unscanned != UNKNOWN_ROUTE
    has_content = row.segments > 0 or is_forwarded or row.door == "answer"
    return has_content or (row.failure is not None and row.failure not in NO_SCANS)


def _names(row: Any) -> Iterator[tuple[Dimension, str]]:
    if not is_scan(row):
        yield "other", row.key_id or ""
        return
    yield "all", ""
    yield "key", row.key_id or ""
    yield "model", row.model or ""
    if row.layer_used != NOT_SCANNED:
        yield "layer", row.layer_used
    yield "latency", str(rounded(row.latency_ms))
    for label in row.threats.split():
        yield "label", label
    for rule in {str(finding.get("rule")) for finding in row.findings}:
        yield "rule", rule


def rounded(latency: int) -> int:
    """Milliseconds rounded up to two digits: at most 10 % more, and few different values."""
    unit: int = 10 ** max(0, len(str(latency)) - 2)
    return -(-latency // unit) * unit
