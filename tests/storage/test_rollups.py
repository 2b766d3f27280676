"""The hourly totals, on each database: they are the aggregation of the rows, whatever is written or deleted."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert, literal, select, text, update
from storage.test_analytics import NOW, PLAIN

from sidecar.storage import DecisionRow, Filter, Store
from sidecar.storage.migration import migrate
from sidecar.storage.rollups import COUNTED, COUNTS, DAILY, DAY, FIRST_COST, HOUR, Hours, Names, is_scan, rounded
from sidecar.storage.schema import hourly, metadata

HOURS = 5
WINDOWS = [(0, 72), (5, 40), (12, 36), (11, 37), (20, 22), (3, 30), (None, 50), (30, None)]
"""Pairs of hours: with whole days, parts of days, both, and open ends."""
SPAN = 3 * DAY
"""Hours of decisions over several days."""
FIRST = int(NOW.timestamp()) // HOUR
MARK = {"dimension": FIRST_COST, "name": "", "scans": 0, **dict.fromkeys(COUNTS[1:], 0)}


def drawn(count: int, seed: int = 1) -> list[DecisionRow]:
    """Random decisions of a few hours."""
    source = random.Random(seed)  # noqa: S311 - the same rows in every run
    return [drawn_row(f"dec_{seed}_{number}", source) for number in range(count)]


def drawn_row(row_id: str, source: random.Random) -> DecisionRow:
    """One of them."""
    return replace(
        PLAIN,
        id=row_id,
        at=NOW + timedelta(seconds=source.random() * HOURS * HOUR),
        action=source.choice(["allow", "block", "monitor"]),
        recommended=source.choice(["allow", "block"]),
        layer_used=source.choice(["rules", "semantic", "llm_judge"]),
        threats=source.choice(["", "jailbreak", "jailbreak pii_detected"]),
        latency_ms=int(10 ** (source.random() * 4)),
        key_id=source.choice([None, "k1", "k2"]),
        model=source.choice([None, "m1", "m2\x00\ud800"]),
        failure=source.choice([None, None, "deadline", "route_not_allowed"]),
        unscanned=source.choice([None, None, "media"]),
        segments=source.choice([0, 1, 2]),
        door=source.choice(["api", "answer"]),
        findings=[{"rule": rule} for rule in source.choices(["INJ-1", "INJ-2"], k=source.randint(0, 3))],
        layers=[
            {"layer": layer, "elapsed_ms": source.choice([None, round(source.random() * 50, 3)])}
            for layer in source.choice([(), ("rules",), ("rules", "semantic")])
        ],
    )


async def totals(store: Store) -> dict[tuple[object, ...], tuple[object, ...]]:
    """All totals, by dimension, hour and name."""
    async with store._database.read() as connection:
        return {tuple(row[:3]): tuple(row[3:]) for row in await connection.execute(select(hourly))}


async def recounted(store: Store) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The same, from the rows as they are stored."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in await store.decisions.query(limit=100_000):
        hour = int(row.at.timestamp()) // HOUR
        names: set[tuple[str, str]] = {("all", ""), ("key", row.key_id or ""), ("model", row.model or "")}
        names |= {("layer", row.layer_used), ("latency", str(rounded(row.latency_ms)))}
        names |= {("label", label) for label in row.threats.split()}
        names |= {("rule", finding["rule"]) for finding in row.findings}
        if not is_scan(row):
            names = {("other", row.key_id or "")}
        numbers = (1, row.action == "block", row.recommended == "block", bool(row.unscanned), bool(row.failure), 0)
        daily = {(DAILY[dimension], hour // DAY * DAY, name) for dimension, name in names if dimension in DAILY}
        for dimension, at, name in {(dimension, hour, name) for dimension, name in names} | daily:
            found.update({(dimension, at, name, index): int(number) for index, number in enumerate(numbers)})
        for layer in row.layers if is_scan(row) else ():
            cost = ("cost", hour, layer["layer"])
            found.update({(*cost, 0): 1, (*cost, 5): round((layer["elapsed_ms"] or 0) * 1000)})
    keys = {key[:3] for key in found}
    return {key: tuple(found[(*key, index)] for index in range(6)) for key in keys}


async def test_totals_are_the_aggregation_of_the_rows(store: Store) -> None:
    """After writing, writing again, and deleting by age and by number."""
    batches = [drawn(100, seed) for seed in range(5)]
    await asyncio.gather(*(store.decisions.add(batch) for batch in batches))
    assert await totals(store) == await recounted(store)
    await store.decisions.add([*batches[0], *drawn(10, 9)])
    assert await store.decisions.count() == 510
    assert await totals(store) == await recounted(store)
    await store.decisions.purge(NOW + timedelta(hours=1.5))
    assert 0 < await store.decisions.count() < 500
    assert await totals(store) == await recounted(store)
    await store.decisions.keep(100)
    assert await totals(store) == await recounted(store)
    await store.decisions.purge(NOW + timedelta(days=1))
    assert await totals(store) == {}


async def test_a_batch_that_fails_is_not_counted(store: Store) -> None:
    """The row and its totals are one transaction."""
    with pytest.raises(Exception, match=r"NOT NULL|null value"):
        await store.decisions.add([*drawn(3), replace(PLAIN, id="dec_bad", digest=None)])  # type: ignore[arg-type]
    assert await totals(store) == {}


@pytest.mark.parametrize("key", [None, "k1"])
async def test_pages_have_the_same_figures_from_totals_and_from_rows(store: Store, key: str | None) -> None:
    """Every figure of the overview over whole hours, with the totals and after they were declared incomplete."""
    await store.decisions.add([replace(row, latency_ms=row.latency_ms % 100) for row in drawn(400)])
    from_totals = await figures(store, key)
    async with store._database.write() as connection:
        await connection.execute(update(hourly).values(scans=hourly.c.scans + 1000))
    assert await figures(store, key) != from_totals, "the totals were not used"
    store.decisions._rollups._first_hour = FIRST + 1
    assert await figures(store, key) == from_totals


async def figures(store: Store, key: str | None) -> list[object]:
    """All figures of the overview."""
    since, until = NOW, NOW + timedelta(hours=HOURS)
    criteria, source = Filter(since=since, until=until, key_id=key, kind="scan"), store.analytics
    return [
        await source.totals(criteria),
        await source.other_requests(criteria),
        await source.over_time(since, until, HOUR, criteria),
        await source.over_time(since, until, 2 * HOUR, criteria),
        await source.by_label(criteria),
        await source.by("layer_used", criteria),
        sorted(await source.by("model", criteria), key=str),
        sorted(await source.by("key_id", criteria), key=str),
        sorted(await source.by_rule(criteria), key=str),
        await source.latency(criteria),
    ]


async def test_parts_of_an_hour_are_read_from_the_rows(store: Store) -> None:
    """A minute more or less is seen."""
    await store.decisions.add([replace(PLAIN, at=NOW + timedelta(minutes=10))])
    for minutes, scans in ((0, 1), (5, 1), (11, 0)):
        found = await store.analytics.totals(Filter(since=NOW + timedelta(minutes=minutes), kind="scan"))
        assert found.scans == scans


async def test_after_a_migration_totals_begin_when_old_replicas_have_gone(store: Store) -> None:
    """What was written before, or by an old replica beside it, is read from the rows, and deleted without a trace."""
    async with store._database.write() as connection:
        await connection.run_sync(metadata.drop_all)
        await connection.execute(text("DELETE FROM alembic_version"))
        await connection.run_sync(migrate, "test")
    now = datetime.now(NOW.tzinfo).replace(minute=0, second=0, microsecond=0)
    await store.decisions.add([replace(PLAIN, id="old", at=now), replace(PLAIN, id="new", at=now + timedelta(hours=3))])
    assert {key[0] for key in await totals(store)} == {
        *("1stcost", "first", "all", "key", "model", "layer", "latency"),
        *("dkey", "dmodel", "dlayer", "dlatency"),
    }
    assert (await store.analytics.totals()).scans == 2
    assert (await store.analytics.totals(Filter(since=now + timedelta(hours=2), kind="scan"))).scans == 1
    await store.decisions.purge(now + timedelta(days=1))
    assert {key[0] for key in await totals(store)} == {"1stcost", "first"}


async def test_costs_begin_at_an_hour_of_their_own(store: Store) -> None:
    """The totals of a former version stay; what it wrote without costs is not subtracted from them later."""
    async with store._database.write() as connection:
        await connection.execute(insert(hourly).values(**{**MARK, "hour": FIRST + 1}))
    layers = [{"layer": "rules", "elapsed_ms": 1.5}]
    await store.decisions.add([replace(PLAIN, id=str(n), at=NOW + timedelta(hours=n), layers=layers) for n in range(3)])
    cost = {key[1] - FIRST: values for key, values in (await totals(store)).items() if key[0] == "cost"}  # type: ignore[operator]
    assert cost == {1: (1, 0, 0, 0, 0, 1500), 2: (1, 0, 0, 0, 0, 1500)}
    assert (await store.analytics.totals()).scans == 3
    await store.decisions.purge(NOW + timedelta(days=1))
    assert {key[0] for key in await totals(store)} == {"1stcost"}


@pytest.mark.parametrize(("latency", "shown"), [(0, 0), (7, 7), (99, 99), (100, 100), (101, 110), (1234, 1300)])
def test_latencies_are_rounded_up_to_two_digits(latency: int, shown: int) -> None:
    """So that an hour has few different ones."""
    assert rounded(latency) == shown


def test_a_row_has_every_column_that_is_counted() -> None:
    """The columns that a deletion returns are those of a row."""
    assert set(COUNTED) <= set(DecisionRow.__slots__)


@pytest.mark.parametrize(("first", "end"), WINDOWS)
async def test_whole_days_and_the_hours_around_them_are_all_hours(
    store: Store, first: int | None, end: int | None
) -> None:
    """Whatever hours are asked for, daily and hourly totals together are those of the rows."""
    await store.decisions.add(
        [replace(row, at=NOW + timedelta(hours=n % SPAN, minutes=5)) for n, row in enumerate(drawn(3 * SPAN))]
    )
    moments = [None if hour is None else NOW + timedelta(hours=hour) for hour in (first, end)]
    criteria = Filter(since=moments[0], until=moments[1], kind="scan")
    from_totals = await names(store, criteria)
    store.decisions._rollups._first_hour = 2**30
    assert await names(store, criteria) == from_totals


async def names(store: Store, criteria: Filter) -> list[object]:
    """The figures by name."""
    source = store.analytics
    return [
        await source.by_label(criteria),
        await source.by("layer_used", criteria),
        sorted(await source.by("model", criteria), key=str),
        sorted(await source.by("key_id", criteria), key=str),
        sorted(await source.by_rule(criteria), key=str),
        await source.other_requests(criteria),
    ]


@pytest.mark.parametrize("name", ["k1", select(literal("k1")).union_all(select(literal("k2"))).subquery().select()])
@pytest.mark.parametrize("scans", [1, 7, 40, 10_000])
async def test_the_newest_scans_begin_at_the_last_hour_that_leaves_enough(
    store: Store, name: Names, scans: int
) -> None:
    """Of one key or of several: from that hour on there are so many, and from the next one fewer."""
    await store.decisions.add(
        [replace(row, at=NOW + timedelta(hours=n % SPAN, minutes=5)) for n, row in enumerate(drawn(3 * SPAN))]
    )
    rows, keys = await store.decisions.query(Filter(kind="scan"), limit=1000), {"k1"} if name == "k1" else {"k1", "k2"}
    hours = [int(row.at.timestamp()) // HOUR for row in rows if row.key_id in keys]
    enough = [hour for hour in set(hours) if sum(other >= hour for other in hours) >= scans]
    for window in (Hours(), Hours(FIRST + 1 if scans < 40 else FIRST, FIRST + SPAN)):
        assert await store.decisions._rollups.newest("key", window, name, scans) == max(enough, default=None)
