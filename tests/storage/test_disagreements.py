"""Tests of disagreements, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sidecar.storage import Disagreement, Store

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ONE = Disagreement("dec_0", NOW, None, "r1", "block", 0.9, ["INJ-100"], "r2", "allow", 0.1, [])
MANY = [
    replace(ONE, decision=f"dec_{number}", at=NOW + timedelta(seconds=number // 2), key_id="k1234567")
    for number in range(6)
]


async def test_rows_are_listed_newest_first_in_pages(store: Store) -> None:
    """Each once, even with equal timestamps; retrying a batch adds nothing."""
    for _ in range(2):
        await store.disagreements.add(MANY)
    rows = await store.disagreements.query(limit=3)
    rows += await store.disagreements.query(limit=3, before=rows[-1])
    assert rows == MANY[::-1]


async def test_one_is_found_by_its_decision(store: Store) -> None:
    """From which a page goes on."""
    await store.disagreements.add(MANY)
    assert await store.disagreements.get("dec_3") == MANY[3]
    assert await store.disagreements.get("dec_99") is None


async def test_rows_are_counted_by_action_pair(store: Store) -> None:
    """What would be allowed, and what would be blocked."""
    await store.disagreements.add([*MANY, replace(ONE, decision="dec_9", action="allow", other_action="block")])
    assert await store.disagreements.count() == {("block", "allow"): 6, ("allow", "block"): 1}


async def test_rows_are_filtered_by_policy_set(store: Store) -> None:
    """A changed policy set starts at zero."""
    await store.disagreements.add([ONE, replace(ONE, decision="dec_9", other_revision="r3")])
    assert [row.decision for row in await store.disagreements.query(other_revision="r3")] == ["dec_9"]


async def test_only_the_newest_rows_are_kept(store: Store) -> None:
    """The table is bounded."""
    await store.disagreements.add(MANY)
    assert await store.disagreements.keep(2) == 4
    assert await store.disagreements.query() == MANY[:3:-1]
