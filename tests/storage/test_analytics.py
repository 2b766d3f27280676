"""Tests of the aggregate queries: the same results on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sidecar.storage import SCANS, Bucket, DecisionRow, Filter, Group, Store, Totals
from sidecar.types import Label

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PLAIN = DecisionRow(
    id="dec_0",
    at=NOW,
    door="api",
    route="/api/v1/prompt/scan",
    action="allow",
    recommended="allow",
    status=200,
    risk_score=0.1,
    layer_used="rules",
    threats="",
    latency_ms=1,
    key_id=None,
    model=None,
    length=10,
    segments=1,
    digest="1.ab",
    failure=None,
    unscanned=None,
    revision="r1",
    findings=[],
    layers=[],
)
MET = {"action": "block", "recommended": "block", "findings": [{"rule": "INJ-100"}, {"rule": "INJ-100"}]}


def rows() -> list[DecisionRow]:
    """A hundred decisions 36 seconds apart: every tenth blocked, one unscanned, one only monitored."""
    row = [
        replace(PLAIN, id=f"dec_{n:03}", at=NOW + timedelta(seconds=36 * n), latency_ms=n + 1, key_id=f"k{n % 2}")
        for n in range(100)
    ]
    for n in range(0, 100, 10):
        row[n] = replace(row[n], **MET, threats="jailbreak pii_detected", model="m1")  # type: ignore[arg-type]
    row[1] = replace(row[1], unscanned="media", threats="pii_detected", model="m2")
    row[2] = replace(row[2], action="monitor", recommended="block", failure="deadline")
    return row


@pytest.fixture
async def filled(store: Store) -> Store:
    """A scan log with those rows."""
    await store.decisions.add(rows())
    return store


async def test_totals_count_actions_and_recommendations(filled: Store) -> None:
    """They differ under `mode: monitor`."""
    assert await filled.analytics.totals() == Totals(100, 10, 11, 1, 1)
    assert await filled.analytics.totals(Filter(key_id="k1")) == Totals(50, 0, 0, 1, 0)


async def test_an_empty_log_has_totals(store: Store) -> None:
    """Zeros, and no quantiles."""
    assert await store.analytics.totals() == Totals(0, 0, 0, 0, 0)
    assert await store.analytics.latency() == {}
    assert set((await store.analytics.by_label()).values()) == {0}
    assert (await store.analytics.by("model"), await store.analytics.by_rule()) == ([], [])


async def test_every_interval_has_its_bucket(filled: Store) -> None:
    """Including empty ones; decisions outside are not counted; fractions of a second are truncated."""
    await filled.decisions.add([replace(PLAIN, id="late", at=NOW + timedelta(seconds=1799, microseconds=900_000))])
    result = await filled.analytics.over_time(NOW - timedelta(hours=1), NOW + timedelta(hours=1), 1800)
    assert [bucket.scans for bucket in result] == [0, 0, 51, 50]
    assert result[2] == Bucket(NOW, 51, 5)
    assert sum(bucket.scans for bucket in await filled.analytics.over_time(NOW, NOW + timedelta(seconds=72), 7)) == 2


async def test_too_many_intervals_are_rejected(store: Store) -> None:
    """A page cannot request a bucket per second over a year."""
    with pytest.raises(ValueError, match="1000"):
        await store.analytics.over_time(NOW, NOW + timedelta(days=365), 1)


async def test_groups_are_sorted_by_size(filled: Store) -> None:
    """With their number of blocks; decisions without a value form a group."""
    assert await filled.analytics.by("model") == [Group(None, 89, 0), Group("m1", 10, 10), Group("m2", 1, 0)]
    assert [group.name for group in await filled.analytics.by("key_id")] == ["k0", "k1"]
    assert await filled.analytics.by("layer_used", Filter(action="block")) == [Group("rules", 10, 10)]


async def test_a_decision_counts_for_each_of_its_labels(filled: Store) -> None:
    """Every label has a count."""
    result = await filled.analytics.by_label()
    assert (result[Label.JAILBREAK], result[Label.PII_DETECTED], result[Label.TOKEN_SMUGGLING], len(result)) == (
        10,
        11,
        0,
        5,
    )


async def test_latency_is_the_nearest_rank(filled: Store) -> None:
    """Of 1 to 100 ms each quantile is its own value."""
    assert await filled.analytics.latency() == {0.5: 50, 0.9: 90, 0.95: 95, 0.99: 99}
    assert await filled.analytics.latency(Filter(action="monitor"), (0.0, 0.5, 1.0)) == {0.0: 3, 0.5: 3, 1.0: 3}


async def test_a_rule_counts_once_per_decision(filled: Store) -> None:
    """However often it matches."""
    assert await filled.analytics.by_rule() == [Group("INJ-100", 10, 10)]


async def test_the_newest_scans_of_a_key_are_those_of_its_last_hours(filled: Store) -> None:
    """At least as many as asked for, the other bounds kept; of all keys, or where there are fewer, all of them."""
    later = [replace(PLAIN, id=f"late_{n}", at=NOW + timedelta(hours=30, minutes=n), key_id="k0") for n in range(5)]
    await filled.decisions.add(later)
    of_key, end = Filter(key_id="k0", kind="scan"), NOW + timedelta(days=2)
    assert await filled.analytics.newest(replace(of_key, until=end), 5) == replace(
        of_key, since=NOW + timedelta(hours=30), until=end
    )
    assert await filled.analytics.newest(of_key, 6) == replace(of_key, since=NOW)
    for unbounded in (replace(of_key, since=NOW - timedelta(days=1)), SCANS, replace(of_key, action="block")):
        assert await filled.analytics.newest(unbounded, 56) == unbounded
