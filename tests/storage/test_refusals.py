"""Totals of requests over a limit, on each database."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select, text

from sidecar.storage import NO_KEY, ApiKey, Store
from sidecar.storage.refusals import HOUR
from sidecar.storage.schema import refusals

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOON = int(NOW.timestamp()) // HOUR
NEXT = NOW + timedelta(hours=1)


async def test_requests_are_added_up_by_key_hour_and_cause(store: Store) -> None:
    """Writers at once lose none; however many requests there are, a key has one row for an hour and a cause."""
    batch = {("k1", NOON, "rate"): 3, ("k1", NOON, "bytes"): 1, ("k2", NOON, "rate"): 5, (NO_KEY, NOON, "rate"): 7}
    await asyncio.gather(*(store.refusals.add(batch) for _ in range(4)))
    await store.refusals.add({("k1", NOON + 1, "rate"): 100})
    assert await store.refusals.of_keys(["k1", "k9"], NOW, NEXT) == {"k1": {"rate": 12, "bytes": 4}}
    assert await store.refusals.of_keys([], NOW, NEXT) == {}
    async with store._database.read() as connection:
        assert await connection.scalar(select(func.count()).select_from(refusals)) == 5


async def test_the_total_is_that_of_a_key_of_teams_or_of_all(store: Store) -> None:
    """A team does not see the requests of others, nor those without a key; parts of an hour count as the whole."""
    await store.keys.add(ApiKey("k1", "shop", "development", NOW, team="shop"), bytes(32))
    await store.refusals.add({("k1", NOON, "rate"): 3, ("k2", NOON, "rate"): 5, (NO_KEY, NOON, "rate"): 7})
    assert await store.refusals.total(NOW, NEXT) == 15
    assert await store.refusals.total(NOW + timedelta(minutes=50), NEXT) == 15
    assert await store.refusals.total(NEXT, NEXT + timedelta(hours=9)) == 0
    assert await store.refusals.total(NOW, NEXT, "k2") == 5
    assert await store.refusals.total(NOW, NEXT, teams=["shop"]) == 3
    assert await store.refusals.total(NOW, NEXT, "k2", ["shop"]) == 0
    assert await store.refusals.total(NOW, NEXT, teams=[]) == 0


async def test_old_totals_are_deleted(store: Store) -> None:
    """Whole hours before the time; the hour that it lies in stays."""
    await store.refusals.add({("k1", NOON + hour, "rate"): 1 for hour in range(-2, 3)})
    await store.refusals.purge(NOW + timedelta(minutes=30))
    assert await store.refusals.total(NOW - timedelta(days=1), NOW + timedelta(days=1)) == 3


async def test_the_keys_of_a_page_are_read_by_an_index(store: Store) -> None:
    """Of a large table too: the plan has no scan of all rows."""
    await store.refusals.add({(f"k{key}", NOON + hour, "rate"): 1 for key in range(200) for hour in range(50)})
    explain = "EXPLAIN QUERY PLAN" if store._database.is_sqlite else "EXPLAIN"
    columns = "SELECT key_id, cause, sum(requests) FROM refusals"
    conditions = f"key_id IN ('k1', 'k2') AND hour >= {NOON} AND hour < {NOON + 40}"
    statement = f"{columns} WHERE {conditions} GROUP BY key_id, cause"
    async with store._database.write() as connection:
        await connection.execute(text("ANALYZE"))
        plan = " ".join(str(row[-1]) for row in await connection.execute(text(f"{explain} {statement}")))
    assert "ndex" in plan or "INDEX" in plan, plan
    assert "Seq Scan" not in plan
    assert "SCAN refusals" not in plan
