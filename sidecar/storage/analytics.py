"""Figures of the scan log: how many, over time, by what, and how fast. The same on SQLite and PostgreSQL.

Every query takes the filter that the scan log's pages take. Answers are plain values with their bounds stated.
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
MOST_BUCKETS = 1_000
MOST_GROUPS = 50
RULE_ROWS = 10_000
_BLOCKED = func.sum(case((table.c.action == "block", 1), else_=0))
_RECOMMENDED = func.sum(case((table.c.recommended == "block", 1), else_=0))


@dataclass(frozen=True, slots=True)
class Totals:
    """Decisions in all; refused; recommended to be (more than refused under `mode: monitor`); unscanned; failed."""

    scans: int
    blocked: int
    recommended: int
    unscanned: int
    failed: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """A stretch of time from `at` on."""

    at: datetime
    scans: int
    blocked: int


@dataclass(frozen=True, slots=True)
class Group:
    """What has this name (None: has none)."""

    name: str | None
    scans: int
    blocked: int


class Analytics:
    """Questions to the table of decisions. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def totals(self, wanted: Filter | None = None) -> Totals:
        """How many of each kind."""
        kinds = (func.count(), _BLOCKED, _RECOMMENDED, func.count(table.c.unscanned), func.count(table.c.failure))
        (row,) = await self._rows(_where(select(*kinds), wanted))
        return Totals(*(int(number or 0) for number in row))

    async def over_time(
        self, since: datetime, until: datetime, step: float, wanted: Filter | None = None
    ) -> list[Bucket]:
        """All stretches of `step` seconds from `since` to `until`, empty ones too, the oldest first.

        Raises `ValueError` for more than `MOST_BUCKETS` of them.
        """
        seconds, first = max(1, int(step)), int(since.timestamp())
        count = -(-(int(until.timestamp()) - first) // seconds)
        if count > MOST_BUCKETS:
            raise ValueError(f"more than {MOST_BUCKETS} stretches of time")
        number = (self._second() - first) // seconds
        chosen = replace(wanted or Filter(), since=since, until=until)
        rows = await self._rows(_where(select(number.label("n"), func.count(), _BLOCKED), chosen).group_by("n"))
        found = {int(number): (int(scans), int(blocked or 0)) for number, scans, blocked in rows}
        begins = [datetime.fromtimestamp(first + index * seconds, UTC) for index in range(count)]
        return [Bucket(begins[index], *found.get(index, (0, 0))) for index in range(count)]

    async def by(self, column: Grouping, wanted: Filter | None = None) -> list[Group]:
        """The most frequent values of a column, at most `MOST_GROUPS`."""
        name = table.c[column]
        counted = select(name, func.count().label("n"), _BLOCKED).group_by(name)
        rows = await self._rows(_where(counted, wanted).order_by(func.count().desc(), name).limit(MOST_GROUPS))
        return [Group(value, int(scans), int(blocked or 0)) for value, scans, blocked in rows]

    async def by_label(self, wanted: Filter | None = None) -> dict[Label, int]:
        """How many decisions name each label; one decision may name several."""
        named = [func.sum(case((table.c.threats.contains(label, autoescape=True), 1), else_=0)) for label in Label]
        (row,) = await self._rows(_where(select(*named), wanted))
        return {label: int(number or 0) for label, number in zip(Label, row, strict=True)}

    async def latency(self, wanted: Filter | None = None, quantiles: Sequence[float] = QUANTILES) -> dict[float, int]:
        """Milliseconds of a scan at each quantile (the nearest rank); empty without decisions."""
        (row,) = await self._rows(_where(select(func.count()), wanted))
        total = int(row[0])
        ranked = _where(select(table.c.latency_ms), wanted).order_by(table.c.latency_ms)
        found = {}
        for quantile in quantiles if total else ():
            rank = min(total - 1, max(0, -int(-quantile * total // 1) - 1))
            (value,) = await self._rows(ranked.offset(rank).limit(1))
            found[quantile] = int(value[0])
        return found

    async def by_rule(self, wanted: Filter | None = None) -> list[Group]:
        """How many of the newest `RULE_ROWS` decisions each rule was met in, and how many of those were refused."""
        newest = _where(select(table.c.findings, table.c.action), wanted).order_by(table.c.at.desc()).limit(RULE_ROWS)
        met: Counter[str] = Counter()
        blocked: Counter[str] = Counter()
        for findings, action in await self._rows(newest):
            rules = {str(finding.get("rule")) for finding in findings}
            met.update(rules)
            blocked.update(rules if action == "block" else ())
        return [Group(rule, number, blocked[rule]) for rule, number in met.most_common()]

    def _second(self) -> ColumnElement[int]:
        """The second of a decision, since 1970."""
        if self._database.is_sqlite:
            return cast(func.strftime("%s", table.c.at), BigInteger)
        return cast(func.floor(extract("epoch", table.c.at)), BigInteger)

    async def _rows(self, wanted: Select[Any]) -> list[Any]:
        async with self._database.read() as connection:
            return list(await connection.execute(wanted))


def _where(asked: Any, wanted: Filter | None) -> Select[Any]:
    found: Select[Any] = asked.select_from(table).where(*conditions(wanted or Filter()))
    return found
