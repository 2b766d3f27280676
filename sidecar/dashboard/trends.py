"""Trends: threats, latency and the cost of layers over time, each figure with a link to its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from sidecar.dashboard.charts import SMALL, Chart, lines, over_time, share
from sidecar.dashboard.guard import Route, Visit
from sidecar.dashboard.periods import RANGES, Period, read_choice, try_period
from sidecar.dashboard.refresh import refreshed
from sidecar.storage import TREND_ROWS, Bucket, Cost, Filter, Steps
from sidecar.types import LayerName

PATH = "/trends"
MILLISECOND, SECOND = 1_000, 1_000_000
"""Microseconds."""
MAX_MILLISECONDS = 10_000
"""Beyond it an axis is in seconds."""


@dataclass(frozen=True, slots=True)
class LayerTrend:
    """What one layer costs over time, and in all."""

    layer: LayerName
    costs: Sequence[Cost]
    total: Cost
    chart: Chart
    unit: str


class TrendsPage:
    """The page of figures over time."""

    def routes(self) -> list[Route]:
        """The route of this page."""
        return [Route("GET", PATH, self.show)]

    async def show(self, visit: Visit) -> web.Response:
        """All charts of a time range, of one team, of one key or of all."""
        form, store = visit.query, visit.store
        (period, error), chosen = try_period(form, datetime.now(UTC)), read_choice(form)
        steps = Steps(period.since, period.until, int(period.step.total_seconds()))
        criteria = visit.within(Filter(period.since, period.until, chosen.get("key"), kind="scan"))
        buckets = await store.analytics.over_time(period.since, period.until, steps.seconds, criteria)
        newest = await store.analytics.newest(criteria, TREND_ROWS)
        labels = await store.trends.labels(steps, newest)
        latency = await store.trends.latency(steps, newest)
        unscanned = await store.trends.unscanned(steps, criteria)
        scans = sum(bucket.scans for bucket in buckets)
        answer = visit.page(
            "trends.html",
            error.status if error else 200,
            error=error,
            page=PATH,
            period=period,
            ranges=RANGES,
            keys=await visit.keys(),
            teams=await visit.team_choices(),
            chosen=chosen,
            starts=steps.starts,
            scans=scans,
            blocked=sum(bucket.blocked for bucket in buckets),
            chart=over_time(buckets, period.step),
            labels=sorted(labels.items(), key=lambda item: -sum(item[1])),
            label_charts={label: _columns(steps, counts, period) for label, counts in labels.items()},
            unscanned=unscanned,
            unscanned_chart=_columns(steps, unscanned, period),
            latency=latency,
            latency_chart=lines(steps.starts, _curves(latency), period.step),
            costs=_layers(await store.trends.costs(steps, newest), steps, period),
            costs_since=await store.trends.costs_since(steps, criteria),
            rows=None if await store.trends.is_complete(steps, criteria, scans) else TREND_ROWS,
            share=share,
        )
        return refreshed(answer, form)


def _curves(latency: Sequence[Sequence[int]]) -> dict[str, list[int | None]]:
    """The quantiles as curves; None where nothing was scanned."""
    return {name: [step[n] if step else None for step in latency] for n, name in enumerate(("p50", "p95"))}


def _columns(steps: Steps, values: Sequence[int], period: Period) -> Chart:
    buckets = [Bucket(at, value, 0) for at, value in zip(steps.starts, values, strict=True)]
    return over_time(buckets, period.step, SMALL)


def _layers(costs: dict[LayerName, list[Cost]], steps: Steps, period: Period) -> list[LayerTrend]:
    """The layers that ran."""
    return [_layer(layer, series, steps, period) for layer, series in costs.items() if any(series)]


def _layer(layer: LayerName, series: Sequence[Cost], steps: Steps, period: Period) -> LayerTrend:
    total = Cost(sum(cost.calls for cost in series), sum(cost.microseconds for cost in series))
    is_long = max(cost.microseconds for cost in series) > MAX_MILLISECONDS * MILLISECOND
    unit, size = ("s", SECOND) if is_long else ("ms", MILLISECOND)
    chart = _columns(steps, [-(-cost.microseconds // size) for cost in series], period)
    return LayerTrend(layer, series, total, chart, unit)
