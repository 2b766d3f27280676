"""Tests of the scan log on each database: batches, queries, pages, retention."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import dashboard
import pytest

from sidecar.errors import StoreError
from sidecar.storage import DecisionRow, Filter, Store
from sidecar.storage.decisions import PURGE_BATCH

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ENTRY = DecisionRow(
    id="dec_0",
    at=NOW,
    door="api",
    route="/api/v1/prompt/scan",
    action="block",
    recommended="block",
    status=200,
    risk_score=0.9123,
    layer_used="rules",
    threats="prompt_injection jailbreak",
    latency_ms=3,
    key_id="abcdefgh",
    model="gpt",
    length=10,
    segments=1,
    digest="1.ab",
    failure=None,
    unscanned=None,
    revision="r1",
    findings=[{"rule": "INJ-1", "score": 0.9, "start": None}],
    layers=[{"layer": "rules", "score": 0.9}],
)


def row_at(number: int, **changes: object) -> DecisionRow:
    """A row of its own, `number` seconds later."""
    return replace(ENTRY, id=f"dec_{number}", at=NOW + timedelta(seconds=number), **changes)


async def ids(store: Store, **criteria: object) -> list[str]:
    """The ids that a query returns."""
    return [entry.id for entry in await store.decisions.query(Filter(**criteria))]


async def test_a_row_is_returned_as_written(store: Store) -> None:
    """All columns including lists; an unknown id returns nothing."""
    remaining = replace(ENTRY, id="dec_1", text="hello", reasoning="why")
    await store.decisions.add([ENTRY, remaining])
    assert await store.decisions.get("dec_0") == ENTRY
    assert await store.decisions.get("dec_1") == remaining
    assert await store.decisions.get("dec_2") is None


async def test_writing_a_batch_twice_writes_it_once(store: Store) -> None:
    """A retry after a commit whose reply was lost adds no row and is no error."""
    await store.decisions.add([row_at(1), row_at(2)])
    await store.decisions.add([row_at(2), row_at(3)])
    assert await store.decisions.count() == 3


async def test_a_batch_is_all_or_nothing(store: Store) -> None:
    """If the database rejects one row, no row of the batch is written."""
    with pytest.raises(StoreError):
        await store.decisions.add([row_at(1), row_at(2, latency_ms=None)])
    assert await store.decisions.count() == 0


async def test_hostile_text_is_stored_as_text(store: Store) -> None:
    """NUL, surrogates, quotes, markup and a megabyte of text are stored, with a bounded length."""
    hostile = "'; DROP TABLE decisions; -- <script>=cmd()\r\n\x00\ud800" + "x" * 1_000_000
    await store.decisions.add([replace(ENTRY, model=hostile, route=hostile, text=hostile)])
    rows = (await store.decisions.query())[0]
    assert rows.model is not None
    assert rows.model.startswith("'; DROP TABLE decisions; -- <script>=cmd()\r\n�?")
    assert len(rows.model) == len(rows.route) == 200


async def test_each_filter_field_selects_rows(store: Store) -> None:
    """Each field on its own, newest first."""
    changes = {
        "key_id": None,
        "model": None,
        "action": "allow",
        "layer_used": "semantic",
        "threats": "pii_detected",
    }
    await store.decisions.add([row_at(1), row_at(2, **changes), row_at(3)])
    assert await ids(store) == ["dec_3", "dec_2", "dec_1"]
    for name, value in [("key_id", "abcdefgh"), ("model", "gpt"), ("action", "block"), ("layer_used", "rules")]:
        assert await ids(store, **{name: value}) == ["dec_3", "dec_1"], name
    assert await ids(store, label="jailbreak") == ["dec_3", "dec_1"]
    assert await ids(store, label="%") == []
    assert await ids(store, since=row_at(2).at) == ["dec_3", "dec_2"]
    assert await ids(store, until=row_at(2).at) == ["dec_1"]
    assert await store.decisions.count(Filter(action="allow")) == 1


async def test_pages_follow_each_other_without_gap_or_repetition(store: Store) -> None:
    """Even if many rows share one timestamp."""
    await store.decisions.add([replace(row_at(n), at=NOW) for n in range(25)])
    listed: list[str] = []
    last = None
    while page := await store.decisions.query(Filter(before=last), limit=10):
        listed += [entry.id for entry in page]
        last = page[-1]
    assert len(listed) == len(set(listed)) == 25


async def test_retention_deletes_exactly_the_older_rows(store: Store) -> None:
    """In several transactions if there are many."""
    rows = PURGE_BATCH + 5
    await store.decisions.add([row_at(n) for n in range(rows + 3)])
    assert await store.decisions.purge(NOW + timedelta(seconds=rows)) == rows
    assert await store.decisions.count() == 3


async def test_beyond_a_bound_the_oldest_rows_are_deleted(store: Store) -> None:
    """In several transactions if there are many; within the bound none is."""
    rows = PURGE_BATCH + 5
    await store.decisions.add([row_at(n) for n in range(rows + 3)])
    assert await store.decisions.keep(rows + 3) == 0
    assert await store.decisions.keep(3) == rows
    assert await ids(store) == [f"dec_{n}" for n in (rows + 2, rows + 1, rows)]


async def test_a_page_looks_through_a_bounded_part_of_the_log(store: Store) -> None:
    """Sorted or filtered, it names the row from which to go on; the flagged rows have a window of their own."""
    harmless: dict[str, object] = {"action": "allow", "threats": ""}
    rows = [row_at(number, risk_score=number / 100, **({} if number < 5 else harmless)) for number in range(30)]
    await store.decisions.add(rows)
    newest = await store.decisions.page(Filter(), "risk_score", limit=3, window=10)
    assert ([row.risk_score for row in newest.rows], newest.last_row) == ([0.29, 0.28, 0.27], None)
    second = await store.decisions.page(Filter(), "risk_score", limit=3, offset=9, window=10)
    assert [row.risk_score for row in second.rows] == [0.2]
    assert second.last_row == second.rows[-1].id
    further = await store.decisions.page(Filter(before=second.rows[-1]), "risk_score", limit=1, window=10)
    assert further.rows[0].risk_score == 0.19
    assert len((await store.decisions.page(Filter(action="block"), window=10)).rows) == 5


@pytest.mark.parametrize(
    "criteria",
    [{}, {"until": NOW + timedelta(hours=30)}, {"since": NOW + timedelta(hours=50)}, {"action": "block"}],
)
@pytest.mark.parametrize("team", ["few", "many", "none"])
async def test_a_list_of_a_team_holds_its_newest_rows(store: Store, team: str, criteria: dict[str, Any]) -> None:
    """Page by page, however rare they are among those of others, with rows that are no scans, on each index."""
    keys = {"few": "aaaaaaaa", "many": "bbbbbbbb", "none": "cccccccc"}
    for name, key_id in keys.items():
        await store.keys.add(dashboard.api_key(key_id, name, name), key_id.encode() * 4)
    rows = [
        row_at(
            1800 * n, key_id=keys["few" if n % 20 == 0 else "many"], segments=n % 3, action=("allow", "block")[n % 2]
        )
        for n in range(200)
    ]
    await store.decisions.add(rows)
    found, wanted = Filter(teams=(team,), **criteria), [row for row in reversed(rows) if row.key_id == keys[team]]
    wanted = [row for row in wanted if row.at < criteria.get("until", row.at + timedelta(1))]
    wanted = [row for row in wanted if row.at >= criteria.get("since", NOW)]
    wanted = [row for row in wanted if row.action == criteria.get("action", row.action)]
    pages = []
    while page := (await store.decisions.page(found, limit=7)).rows:
        pages += page
        found = replace(found, before=page[-1])
    assert [row.id for row in pages] == [row.id for row in wanted]
    slowest = await store.decisions.page(Filter(teams=(team,), **criteria), "latency_ms", limit=5, window=9)
    assert {row.id for row in slowest.rows} <= {row.id for row in wanted[:9]}
    assert len(slowest.rows) == min(5, len(wanted))
