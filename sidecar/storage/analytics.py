"""Aggregate queries on the scan log: counts, over time, by column, and latency. The same on SQLite and PostgreSQL.

Every query takes the filter of the scan log's pages. Results are plain values of bounded size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import BigInteger, ColumnElement, Select, case, cast, extract, func, select

from sidecar.storage.database import Database
from sidecar.storage.decisions import Filter, conditions
from sidecar.storage.schema import decisions as table
from sidecar.types import Label

Grouping = Literal["model", "key_id", "layer_used", "door", "action", "route", "failure"]
QUANTILES = (0.5, 0.9, 0.95, 0.99)
MAX_BUCKETS = 1_000
MAX_GROUPS = 50
RULE_ROWS = 10_000
_BLOCKED = func.sum(case((table.c.action == "block", 1), else_=0))
_RECOMMENDED = func.sum(case((table.c.recommended == "block", 1), else_=0))


@dataclass(frozen=True, slots=True)
class Totals:
    """Decisions; blocked; recommended to be blocked (more than blocked under `mode: monitor`); unscanned; failed."""

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

    def __init__(self, database: Database) -> None:
        self._database = database

    async def totals(self, criteria: Filter | None = None) -> Totals:
        """The totals."""
        kinds = (func.count(), _BLOCKED, _RECOMMENDED, func.count(table.c.unscanned), func.count(table.c.failure))
        (row,) = await self._rows(_filtered(select(*kinds), criteria))
        return Totals(*(int(number or 0) for number in row))

    async def over_time(
        self, since: datetime, until: datetime, step: float, criteria: Filter | None = None
    ) -> list[Bucket]:
        """All intervals of `step` seconds from `since` to `until`, including empty ones, the oldest first.

        Raises `ValueError` for more than `MAX_BUCKETS` of them.
        """
        seconds, first = max(1, int(step)), int(since.timestamp())
        count = -(-(int(until.timestamp()) - first) // seconds)
        if count > MAX_BUCKETS:
            raise ValueError(f"more than {MAX_BUCKETS} time buckets")
        number = (self._epoch_second() - first) // seconds
        window = replace(criteria or Filter(), since=since, until=until)
        rows = await self._rows(_filtered(select(number.label("n"), func.count(), _BLOCKED), window).group_by("n"))
        by_bucket = {int(number): (int(scans), int(blocked or 0)) for number, scans, blocked in rows}
        starts = [datetime.fromtimestamp(first + index * seconds, UTC) for index in range(count)]
        return [Bucket(starts[index], *by_bucket.get(index, (0, 0))) for index in range(count)]

    async def by(self, column: Grouping, criteria: Filter | None = None) -> list[Group]:
        """The most frequent values of a column, at most `MAX_GROUPS`."""
        name = table.c[column]
        counts = select(name, func.count().label("n"), _BLOCKED).group_by(name)
        rows = await self._rows(_filtered(counts, criteria).order_by(func.count().desc(), name).limit(MAX_GROUPS))
        return [Group(value, int(scans), int(blocked or 0)) for value, scans, blocked in rows]

    async def by_label(self, criteria: Filter | None = None) -> dict[Label, int]:
        """The number of decisions with each label; one decision may have several."""
        counts = [func.sum(case((table.c.threats.contains(label, autoescape=True), 1), else_=0)) for label in Label]
        (row,) = await self._rows(_filtered(select(*counts), criteria))
        return {label: int(number or 0) for label, number in zip(Label, row, strict=True)}

    async def latency(self, criteria: Filter | None = None, quantiles: Sequence[float] = QUANTILES) -> dict[float, int]:
        """Scan latency in milliseconds at each quantile (nearest rank); empty without decisions."""
        (row,) = await self._rows(_filtered(select(func.count()), criteria))
        total = int(row[0])
        ranked = _filtered(select(table.c.latency_ms), criteria).order_by(table.c.latency_ms)
        result = {}
        for quantile in quantiles if total else ():
            rank = min(total - 1, max(0, -int(-quantile * total // 1) - 1))
            (value,) = await self._rows(ranked.offset(rank).limit(1))
            result[quantile] = int(value[0])
        return result

    async def by_rule(self, criteria: Filter | None = None) -> list[Group]:
        """For each rule, how many of the newest `RULE_ROWS` decisions it matched, and how many were blocked."""
        decisions = _filtered(select(table.c.findings, table.c.action), criteria)
        newest = decisions.order_by(table.c.at.desc()).limit(RULE_ROWS)
        matches: Counter[str] = Counter()
        blocked: Counter[str] = Counter()
        for findings, action in await self._rows(newest):
            rules = {str(finding.get("rule")) for finding in findings}
            matches.update(rules)
            blocked.update(rules if action == "block" else ())
        return [Group(rule, number, blocked[rule]) for rule, number in matches.most_common()]

    def _epoch_second(self) -> ColumnElement[int]:
        """The Unix time of a decision, in whole seconds."""
        if self._database.is_sqlite:
            return cast(func.strftime("%s", table.c.at), BigInteger)
        return cast(func.floor(extract("epoch", table.c.at)), BigInteger)

    async def _rows(self, statement: Select[Any]) -> list[Any]:
        async with self._database.read() as connection:
            return list(await connection.execute(statement))


def _filtered(statement: Any, criteria: Filter | None) -> Select[Any]:
    result: Select[Any] = statement.select_from(table).where(*conditions(criteria or Filter()))
    return result
