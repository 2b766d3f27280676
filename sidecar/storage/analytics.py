"""Aggregate queries on the scan log: counts, over time, by column, and latency. The same on SQLite and PostgreSQL.

Every query takes the filter of the scan log's pages; without one it counts scans alone. Results are plain values of
bounded size. Whole hours of all scans are read from the hourly totals (`rollups`), anything else from the rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Literal

from sqlalchemy import BigInteger, ColumnElement, Select, Text, case, cast, extract, func, select

from sidecar.storage.database import Database
from sidecar.storage.decision_filter import Filter, conditions, names_of
from sidecar.storage.rollups import HOUR, NOT_SCANNED, Dimension, Hours, Names, RollUps
from sidecar.storage.schema import decisions as table
from sidecar.types import Label

Grouping = Literal["model", "key_id", "layer_used", "door", "action", "route", "failure"]
_DIMENSIONS: dict[str, Dimension] = {"model": "model", "key_id": "key", "layer_used": "layer"}
_IN_TOTALS = frozenset({"since", "until", "key_id", "kind", "teams", "text_hidden"})
"""What the totals can answer, or what changes no figure."""
SCANS = Filter(kind="scan")
QUANTILES = (0.5, 0.9, 0.95, 0.99)
MAX_BUCKETS = 1_000
MAX_GROUPS = 50
RULE_ROWS = 1_500
_BLOCKED = func.sum(case((table.c.action == "block", 1), else_=0))
_RECOMMENDED = func.sum(case((table.c.recommended == "block", 1), else_=0))


@dataclass(frozen=True, slots=True)
class Totals:
    """Scans; blocked; recommended to be blocked (more than blocked under `mode: monitor`); unscanned; failed."""

    scans: int
    blocked: int
    recommended: int
    unscanned: int
    failed: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """A time interval that starts at `at`."""

    at: datetime
    scans: int
    blocked: int


@dataclass(frozen=True, slots=True)
class Group:
    """The decisions with this value (None: without one)."""

    name: str | None
    scans: int
    blocked: int


class Analytics:
    """Queries on the table of decisions. Every method may raise `StoreError`."""

    def __init__(self, database: Database, rollups: RollUps) -> None:
        self._database = database
        self._rollups = rollups

    async def totals(self, criteria: Filter = SCANS) -> Totals:
        """The totals."""
        if hours := await self.hours(criteria):
            return Totals(*await self._rollups.sums(*of_key(criteria, hours)))
        kinds = (func.count(), _BLOCKED, _RECOMMENDED, func.count(table.c.unscanned), func.count(table.c.failure))
        (row,) = await self._rows(filtered(select(*kinds), criteria))
        return Totals(*(int(number or 0) for number in row))

    async def other_requests(self, criteria: Filter = SCANS) -> int:
        """How many requests of the same time and key were no scans."""
        if hours := await self.hours(criteria):
            return (await self._rollups.sums("other", hours, names_of(criteria)))[0]
        (row,) = await self._rows(filtered(select(func.count()), replace(criteria, kind="other")))
        return int(row[0])

    async def over_time(self, since: datetime, until: datetime, step: float, criteria: Filter = SCANS) -> list[Bucket]:
        """All intervals of `step` seconds from `since` to `until`, including empty ones, the oldest first.

        Raises `ValueError` for more than `MAX_BUCKETS` of them.
        """
        seconds, first = max(1, int(step)), int(since.timestamp())
        count = -(-(int(until.timestamp()) - first) // seconds)
        if count > MAX_BUCKETS:
            raise ValueError(f"more than {MAX_BUCKETS} time buckets")
        window = replace(criteria, since=since, until=until)
        starts = [datetime.fromtimestamp(first + index * seconds, UTC) for index in range(count)]
        scans, blocked = [0] * count, [0] * count
        for at, number, refused in await self._over_time(window, first, seconds):
            scans[at] += number
            blocked[at] += refused
        return [Bucket(*values) for values in zip(starts, scans, blocked, strict=True)]

    async def _over_time(self, window: Filter, first: int, seconds: int) -> list[tuple[int, int, int]]:
        """Index of the bucket, decisions and blocked; a bucket may come several times."""
        if seconds % HOUR == 0 and (hours := await self.hours(window)):
            by_hour = await self._rollups.by_hour(*of_key(window, hours), seconds // HOUR)
            return [((hour * HOUR - first) // seconds, scans, blocked) for hour, scans, blocked in by_hour]
        number = self.step(first, seconds).label("n")
        rows = await self._rows(filtered(select(number, func.count(), _BLOCKED), window).group_by("n"))
        return [(int(number), int(scans), int(blocked or 0)) for number, scans, blocked in rows]

    async def by(self, column: Grouping, criteria: Filter = SCANS) -> list[Group]:
        """The most frequent values of a column, at most `MAX_GROUPS`; of layers those that decided."""
        if column in _DIMENSIONS and (hours := await self.hours(criteria, keys=column == "key_id")):
            groups = await self._rollups.by_name(_DIMENSIONS[column], hours, MAX_GROUPS, names_of(criteria))
            return [Group(value or None, scans, blocked) for value, scans, blocked in groups]
        name = table.c[column]
        conditions_of_layer = [name != NOT_SCANNED] if column == "layer_used" else []
        counts = select(name, func.count().label("n"), _BLOCKED).group_by(name)
        rows = await self._rows(
            filtered(counts, criteria).where(*conditions_of_layer).order_by(func.count().desc(), name).limit(MAX_GROUPS)
        )
        return [Group(value, int(scans), int(blocked or 0)) for value, scans, blocked in rows]

    async def by_label(self, criteria: Filter = SCANS) -> dict[Label, int]:
        """The number of decisions with each label; one decision may have several."""
        if hours := await self.hours(criteria, keys=False):
            totals = {name: scans for name, scans, _ in await self._rollups.by_name("label", hours)}
            return {label: totals.get(label, 0) for label in Label}
        totals = Counter[str]()
        for names, scans in await self._rows(
            filtered(select(table.c.threats, func.count()), criteria).group_by(table.c.threats)
        ):
            totals.update(dict.fromkeys(names.split(), int(scans)))
        return {label: totals[label] for label in Label}

    async def latency(self, criteria: Filter = SCANS, quantiles: Sequence[float] = QUANTILES) -> dict[float, int]:
        """Scan latency in milliseconds at each quantile (nearest rank); empty without decisions.

        Of whole hours values from 100 ms on are rounded up to two digits.
        """
        if hours := await self.hours(criteria, keys=False):
            counts = {int(name): scans for name, scans, _ in await self._rollups.by_name("latency", hours)}
            return {quantile: ranked(counts, quantile) for quantile in quantiles if counts}
        rows = await self._rows(
            filtered(select(table.c.latency_ms, func.count()), criteria).group_by(table.c.latency_ms)
        )
        counts = {int(latency): int(scans) for latency, scans in rows}
        return {quantile: ranked(counts, quantile) for quantile in quantiles if counts}

    async def by_rule(self, criteria: Filter = SCANS) -> list[Group]:
        """For each rule, how many decisions it matched, and how many were blocked.

        Of parts of an hour or of one key: of the newest `RULE_ROWS` decisions.
        """
        if hours := await self.hours(criteria, keys=False):
            return [Group(*values) for values in await self._rollups.by_name("rule", hours)]
        decisions = filtered(select(table.c.findings, table.c.action), criteria)
        newest = decisions.order_by(table.c.at.desc()).limit(RULE_ROWS).subquery()
        matches: Counter[str] = Counter()
        blocked: Counter[str] = Counter()
        for findings, action in await self._rows(select(newest).where(cast(newest.c.findings, Text) != "[]")):
            rules = {str(finding.get("rule")) for finding in findings}
            matches.update(rules)
            blocked.update(rules if action == "block" else ())
        return [Group(rule, number, blocked[rule]) for rule, number in matches.most_common()]

    async def newest(self, criteria: Filter = SCANS, scans: int = RULE_ROWS) -> Filter:
        """The filter, narrowed to the newest scans if they are of a key or of teams: at least so many, in whole hours.

        Of them those figures are read from the rows that the totals do not hold by key.
        """
        names, hours = names_of(criteria), await self.hours(criteria)
        if names is None or hours is None:
            return criteria
        first = await self._rollups.newest("key", hours, names, scans)
        return criteria if first is None else replace(criteria, since=datetime.fromtimestamp(first * HOUR, UTC))

    async def hours(self, criteria: Filter, *, keys: bool = True) -> Hours | None:
        """The hours of a filter if the totals can answer it: of whole hours, of all keys or, if `keys`, of some."""
        names = (field.name for field in fields(Filter) if field.name not in _IN_TOTALS)
        if any(getattr(criteria, name) is not None for name in names) or criteria.kind != "scan":
            return None
        if (criteria.key_id or criteria.teams is not None) and not keys:
            return None
        bounds = [None if at is None else at.timestamp() for at in (criteria.since, criteria.until)]
        if any(bound is not None and bound % HOUR for bound in bounds):
            return None
        hours = Hours(*(None if bound is None else int(bound) // HOUR for bound in bounds))
        return hours if await self._rollups.covers(hours) else None

    def step(self, first: int, seconds: int) -> ColumnElement[int]:
        """The index of the step of so many seconds, from the Unix time `first` on, that a decision lies in."""
        second = (
            func.strftime("%s", table.c.at) if self._database.is_sqlite else func.floor(extract("epoch", table.c.at))
        )
        return (cast(second, BigInteger) - first) // seconds

    async def _rows(self, statement: Select[Any]) -> list[Any]:
        async with self._database.read() as connection:
            return list(await connection.execute(statement))


def of_key(criteria: Filter, hours: Hours) -> tuple[Dimension, Hours, Names]:
    """Where the totals of a key or of teams are, or of all."""
    names = names_of(criteria)
    return ("all", hours, "") if names is None else ("key", hours, names)


def _rank(quantile: float, total: int) -> int:
    """The index of the nearest rank."""
    return min(total - 1, max(0, -int(-quantile * total // 1) - 1))


def ranked(counts: Mapping[int, int], quantile: float) -> int:
    """The value at a quantile of values with their numbers."""
    rank = _rank(quantile, sum(counts.values()))
    values = sorted(counts)
    return values[bisect_right(list(accumulate(counts[value] for value in values)), rank)]


def filtered(statement: Any, criteria: Filter) -> Select[Any]:
    """The statement on the decisions that match."""
    result: Select[Any] = statement.select_from(table).where(*conditions(criteria))
    return result
