"""Overview: what was scanned, what was refused and why, latencies, and by which key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from aiohttp import web

from sidecar.dashboard.charts import over_time, share, time_range
from sidecar.dashboard.guard import Route, Visit
from sidecar.policy import Policy
from sidecar.storage import Filter, Group

MOST_ROWS = 8


@dataclass(frozen=True, slots=True)
class Range:
    """A selectable time range, in steps."""

    name: str
    words: str
    length: timedelta
    step: timedelta


RANGES = (
    Range("hour", "hour", timedelta(hours=1), timedelta(minutes=1)),
    Range("day", "24 hours", timedelta(days=1), timedelta(hours=1)),
    Range("week", "7 days", timedelta(days=7), timedelta(hours=3)),
    Range("month", "30 days", timedelta(days=30), timedelta(hours=12)),
)


class Overview:
    """The start page."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy

    def routes(self) -> list[Route]:
        """The route of this page."""
        return [Route("GET", "/", self.show)]

    async def show(self, visit: Visit) -> web.Response:
        """All figures of the chosen time range, of one key or of all."""
        form, figures = visit.query, visit.store.analytics
        name = form.choice("range", [span.name for span in RANGES]) or "day"
        span = next(span for span in RANGES if span.name == name)
        since, until = time_range(datetime.now(UTC), span.length, span.step)
        keys = await visit.store.keys.list()
        criteria = Filter(since=since, until=until, key_id=form.text("key") or None)
        buckets = await figures.over_time(since, until, span.step.total_seconds(), criteria)
        return visit.page(
            "overview.html",
            span=span,
            ranges=RANGES,
            keys=keys,
            key=criteria.key_id or "",
            since=since,
            totals=await figures.totals(criteria),
            chart=over_time(buckets, span.step),
            labels=await figures.by_label(criteria),
            layers=await figures.by("layer_used", criteria),
            models=(await figures.by("model", criteria))[:MOST_ROWS],
            by_key=_named(await figures.by("key_id", criteria), {key.id: key.name for key in keys}),
            rules=(await figures.by_rule(criteria))[:MOST_ROWS],
            titles={rule.id: rule.title for rule in self._policy().rules},
            latency=await figures.latency(criteria),
            share=share,
        )


def _named(groups: list[Group], names: dict[str, str]) -> list[tuple[str, Group]]:
    """Groups with the names of their keys; a deleted key is shown by its id."""
    return [(names.get(group.name or "", group.name or "no key"), group) for group in groups[:MOST_ROWS]]
