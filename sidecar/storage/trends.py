"""Figures of scans over time: each threat, the latency, and what each layer costs. The same on SQLite and PostgreSQL.

Steps of whole hours of all scans are read from the hourly totals (`rollups`), others from the newest `TREND_ROWS` rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Float, Select, cast, func, select, true

from sidecar.storage.analytics import SCANS, Analytics, filtered, of_key, ranked
from sidecar.storage.database import Database
from sidecar.storage.decision_filter import Filter, json_items, json_member
from sidecar.storage.rollups import HOUR, Dimension, Hours, RollUps
from sidecar.storage.schema import decisions as table
from sidecar.types import Label, LayerName

TREND_ROWS = 4_000
"""Scans of a single key, or of parts of an hour, that are looked at."""
QUANTILES = (0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Steps:
    """A time range in whole steps of `seconds`."""

    since: datetime
    until: datetime
    seconds: int

    @property
    def first(self) -> int:
        """The Unix time of its beginning."""
        return int(self.since.timestamp())

    @property
    def starts(self) -> list[datetime]:
        """The beginning of each step."""
        last = int(self.until.timestamp())
        return [datetime.fromtimestamp(second, UTC) for second in range(self.first, last, self.seconds)]


@dataclass(frozen=True, slots=True)
class Cost:
    """How many scans a layer ran for, and how long in all."""

    calls: int = 0
    microseconds: int = 0

    def __bool__(self) -> bool:
        """Whether it ran at all."""
        return self.calls > 0


class Trends:
    """Queries on the table of decisions and on its totals. Every method may raise `StoreError`."""

    def __init__(self, database: Database, rollups: RollUps, analytics: Analytics, rows: int = TREND_ROWS) -> None:
        self._database, self._rollups, self._analytics, self._limit = database, rollups, analytics, rows

    async def labels(self, steps: Steps, criteria: Filter = SCANS) -> dict[Label, list[int]]:
        """The scans with each label, in each step; one scan may have several."""
        series = {label: [0] * len(steps.starts) for label in Label}
        for index, names, scans in await self._counts("label", table.c.threats, steps, criteria):
            for label in set(names.split()) & set(Label):
                series[Label(label)][index] += scans
        return series

    async def unscanned(self, steps: Steps, criteria: Filter = SCANS) -> list[int]:
        """The scans that reached the model unscanned, in each step: from the totals, or of all rows."""
        series = [0] * len(steps.starts)
        for index, number in await self._unscanned(steps, replace(criteria, since=steps.since, until=steps.until)):
            series[index] += number
        return series

    async def _unscanned(self, steps: Steps, window: Filter) -> list[tuple[int, int]]:
        if steps.seconds % HOUR == 0 and (hours := await self._analytics.hours(window)):
            by_hour = await self._rollups.by_hour(*of_key(window, hours), steps.seconds // HOUR, "unscanned")
            return [((hour * HOUR - steps.first) // steps.seconds, number) for hour, _, number in by_hour]
        step = self._analytics.step(steps.first, steps.seconds).label("n")
        counts = filtered(select(step, func.count()), replace(window, outcome="unscanned")).group_by("n")
        return [(int(index), int(number)) for index, number in await self._rows(counts)]

    async def latency(
        self, steps: Steps, criteria: Filter = SCANS, quantiles: Sequence[float] = QUANTILES
    ) -> list[list[int]]:
        """Milliseconds at each quantile (nearest rank), in each step; an empty list without scans.

        Of whole hours values from 100 ms on are rounded up to two digits.
        """
        counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for index, latency, scans in await self._counts("latency", table.c.latency_ms, steps, criteria):
            counts[index][int(latency)] += scans
        return [
            [ranked(counts[index], quantile) for quantile in quantiles] if index in counts else []
            for index in range(len(steps.starts))
        ]

    async def costs(self, steps: Steps, criteria: Filter = SCANS) -> dict[LayerName, list[Cost]]:
        """The cost of each layer, in each step. Totals of it are younger than others: what is older is left out."""
        series = {layer: [Cost()] * len(steps.starts) for layer in LayerName}
        for index, name, calls, time in await self._costs(steps, criteria):
            if name in series:
                series[LayerName(name)][index] = Cost(calls, time)
        return series

    async def costs_since(self, steps: Steps, criteria: Filter = SCANS) -> datetime | None:
        """The time before which no cost is known, if it lies within the steps."""
        hours = await self._hours(steps, criteria)
        first = self._rollups.first_hour_of_costs
        return datetime.fromtimestamp(first * HOUR, UTC) if hours and first > (hours.first or 0) else None

    async def is_complete(self, steps: Steps, criteria: Filter, scans: int) -> bool:
        """Whether the figures are about all of so many scans, and not only about the newest."""
        return scans <= self._limit or await self._hours(steps, criteria) is not None

    async def _costs(self, steps: Steps, criteria: Filter) -> list[tuple[int, str, int, int]]:
        if hours := await self._hours(steps, criteria):
            return await self._rollups.by_step("cost", hours, steps.seconds // HOUR)
        newest = self._newest(table.c.layers, steps, criteria)
        items = json_items(newest.c.layers)
        time = func.sum(cast(json_member("elapsed_ms"), Float)) * 1000
        layer = json_member("layer").label("layer")
        sums = select(newest.c.step, layer, func.count(), time).select_from(newest).join(items, true())
        rows = await self._rows(sums.group_by(newest.c.step, layer))
        return [(int(index), str(name), int(calls), round(time or 0)) for index, name, calls, time in rows]

    async def _counts(
        self, dimension: Dimension, column: Column[Any], steps: Steps, criteria: Filter
    ) -> list[tuple[int, str, int]]:
        """Index of the step, value, and scans."""
        if hours := await self._hours(steps, criteria):
            rows = await self._rollups.by_step(dimension, hours, steps.seconds // HOUR)
            return [(index, name, scans) for index, name, scans, _ in rows]
        newest = self._newest(column, steps, criteria)
        value = newest.c[column.name]
        counts = await self._rows(select(newest.c.step, value, func.count()).group_by(newest.c.step, value))
        return [(int(index), str(name), int(scans)) for index, name, scans in counts]

    def _newest(self, column: Column[Any], steps: Steps, criteria: Filter) -> Any:
        step = self._analytics.step(steps.first, steps.seconds).label("step")
        since = max(criteria.since or steps.since, steps.since)
        rows = filtered(select(step, column), replace(criteria, since=since, until=steps.until))
        return rows.order_by(table.c.at.desc()).limit(self._limit).subquery()

    async def _hours(self, steps: Steps, criteria: Filter) -> Hours | None:
        if steps.seconds % HOUR:
            return None
        return await self._analytics.hours(replace(criteria, since=steps.since, until=steps.until), keys=False)

    async def _rows(self, statement: Select[Any]) -> list[Any]:
        async with self._database.read() as connection:
            return list(await connection.execute(statement))
