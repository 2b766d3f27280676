"""Figures over time, on each database: from totals and from rows alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update
from storage.test_analytics import NOW, PLAIN
from storage.test_rollups import FIRST, HOURS, drawn

from sidecar.storage import Cost, Filter, Steps, Store, Trends
from sidecar.storage.rollups import DAY, HOUR
from sidecar.storage.schema import hourly
from sidecar.types import Label, LayerName

STEPS = Steps(NOW, NOW + timedelta(hours=HOURS), HOUR)
SCANS = Filter(kind="scan")


async def figures(store: Store, steps: Steps, criteria: Filter = SCANS) -> list[object]:
    """All of them."""
    source = store.trends
    return [await way(steps, criteria) for way in (source.labels, source.latency, source.costs)]


async def test_each_step_has_its_figures(store: Store) -> None:
    """Labels, quantiles and costs of the scans in it, and of nothing else; empty steps are there, too."""
    layers = [{"layer": "rules", "elapsed_ms": 1.5}, {"layer": "semantic", "elapsed_ms": 20}]
    late = {"at": NOW + timedelta(minutes=70), "threats": "jailbreak pii_detected"}
    other = {"segments": 0, "threats": "jailbreak", "layers": layers}
    await store.decisions.add(
        [replace(PLAIN, id=str(n), latency_ms=n + 1, layers=layers[:1]) for n in range(100)]
        + [replace(PLAIN, id="late", **late, layers=layers, latency_ms=9), replace(PLAIN, id="other", **other)]  # type: ignore[arg-type]
    )
    for seconds, hours in ((HOUR, 3), (60, 3)):
        steps = Steps(NOW, NOW + timedelta(hours=hours), seconds)
        at, count = 4200 // seconds, len(steps.starts)
        labels, latency, costs = await figures(store, steps)  # type: ignore[misc]
        assert count == hours * HOUR // seconds
        expected = [[50, 95]] + [[]] * (count - 1)
        expected[at] = [9, 9]
        assert latency == expected
        assert labels[Label.JAILBREAK] == labels[Label.PII_DETECTED] == [int(n == at) for n in range(count)]
        assert sum(labels[Label.PROMPT_INJECTION]) == 0
        assert costs[LayerName.RULES][0] == Cost(100, 150_000)
        assert costs[LayerName.SEMANTIC][at] == Cost(1, 20_000)
        assert costs[LayerName.LLM_JUDGE] == [Cost()] * count


@pytest.mark.parametrize("length", [1, 2, 5])
async def test_totals_and_rows_have_the_same_figures(store: Store, length: int) -> None:
    """Over steps of whole hours, with the totals and after they were declared incomplete."""
    rows = [replace(row, latency_ms=row.latency_ms % 100) for row in drawn(400)]
    whole = [{**layer, "elapsed_ms": round(layer["elapsed_ms"] or 0)} for row in rows for layer in row.layers]
    layers = iter(whole)
    await store.decisions.add([replace(row, layers=[next(layers) for _ in row.layers]) for row in rows])
    steps = Steps(NOW, NOW + timedelta(hours=HOURS), length * HOUR)
    from_totals = await figures(store, steps)
    async with store._database.write() as connection:
        await connection.execute(update(hourly).values(scans=hourly.c.scans + 1000))
    assert await figures(store, steps) != from_totals, "the totals were not used"
    store.decisions._rollups._first_hour = FIRST + 1
    assert await figures(store, steps) == from_totals


async def test_whole_days_are_read_from_daily_totals(store: Store) -> None:
    """With the same figures as the hours in them."""
    await store.decisions.add([replace(row, at=NOW + timedelta(hours=n % 72)) for n, row in enumerate(drawn(300))])
    midnight = NOW.replace(hour=0)
    daily = await figures(store, Steps(midnight, midnight + timedelta(days=4), DAY * HOUR))
    store.decisions._rollups._first_hour = 2**30
    from_rows = await figures(store, Steps(midnight, midnight + timedelta(days=4), DAY * HOUR))
    assert daily[0] == from_rows[0]
    async with store._database.read() as connection:
        assert (await connection.execute(hourly.select().where(hourly.c.dimension == "dlabel"))).all()


async def test_one_key_has_its_own_figures(store: Store) -> None:
    """Read from its rows."""
    await store.decisions.add(
        [replace(PLAIN, id=str(n), key_id=f"k{n % 2}", threats="jailbreak", latency_ms=n) for n in range(10)]
    )
    labels, latency, _ = await figures(store, STEPS, replace(SCANS, key_id="k1"))  # type: ignore[misc]
    assert labels[Label.JAILBREAK][0] == 5
    assert latency[0] == [5, 9]


async def test_rows_are_looked_at_in_a_bounded_number(store: Store) -> None:
    """The newest ones, so that a page of a busy key answers in time."""
    bounded = Trends(store._database, store.decisions._rollups, store.analytics, rows=3)
    await store.decisions.add(
        [replace(PLAIN, id=str(n), at=NOW + timedelta(minutes=n), threats="jailbreak") for n in range(5)]
    )
    steps = Steps(NOW, NOW + timedelta(minutes=5), 60)
    assert (await bounded.labels(steps, SCANS))[Label.JAILBREAK] == [0, 0, 1, 1, 1]


async def test_unscanned_scans_are_counted_from_totals_and_rows_alike(store: Store) -> None:
    """Of all keys and of one; requests that are no scans do not count."""
    rows = [
        replace(row, unscanned="deadline" if n % 3 == 0 else None, key_id=("a" if n % 2 else "b") * 8)
        for n, row in enumerate(drawn(200))
    ]
    await store.decisions.add(rows)
    for criteria in (SCANS, Filter(kind="scan", key_id="aaaaaaaa")):
        hourly_counts = await store.trends.unscanned(STEPS, criteria)
        minutes = await store.trends.unscanned(replace(STEPS, seconds=60), criteria)
        assert hourly_counts == [sum(minutes[n * 60 : (n + 1) * 60]) for n in range(HOURS)]
        assert sum(hourly_counts) == (await store.analytics.totals(replace(criteria, since=NOW))).unscanned > 0
