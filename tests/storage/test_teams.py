"""Twin of sidecar/storage/teams.py: names of teams, and rows that belong to the team of their key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dashboard
import pytest
from dashboard import log_row

from sidecar.storage import Disagreement, Filter, Marks, RuleException, Steps, Store, valid_team
from sidecar.storage.teams import join_teams, split_teams

HOUR = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [("shop", True), ("a.b_c-1", True), ("x" * 64, True), ("x" * 65, False), ("", False), ("a b", False), ("*", False)],
)
def test_a_team_has_a_short_plain_name(name: str, is_valid: bool) -> None:
    """No blank, which separates them in the database, and no sign for all."""
    assert valid_team(name) is is_valid


@pytest.mark.parametrize("teams", [None, (), ("shop",), ("ads", "shop")])
def test_teams_are_stored_as_words(teams: tuple[str, ...] | None) -> None:
    """No limit and a limit to no team are two things."""
    assert split_teams(join_teams(teams)) == teams


async def filled(store: Store) -> None:
    """Two keys of teams, one without; two decisions of each in different hours, and two without a key."""
    for key_id, team in (("aaaaaaaa", "shop"), ("bbbbbbbb", "search"), ("cccccccc", None)):
        await store.keys.add(dashboard.api_key(key_id, key_id, team), key_id.encode() * 4)
    keys = ("aaaaaaaa", "bbbbbbbb", "cccccccc", None)
    times = (HOUR, HOUR + timedelta(hours=1))
    rows = [log_row(n, at=times[n % 2], key_id=keys[n // 2]) for n in range(8)]
    await store.decisions.add([*rows, log_row(9, at=HOUR, key_id="aaaaaaaa", segments=0, failure=None)])


@pytest.mark.parametrize(
    ("teams", "count"), [(None, 8), ((), 0), (("shop",), 2), (("shop", "search"), 4), (("absent",), 0)]
)
async def test_figures_are_those_of_the_teams(store: Store, teams: tuple[str, ...] | None, count: int) -> None:
    """By the hourly totals, and by rows where the time is no whole hour; both give the same."""
    await filled(store)
    for offset in (timedelta(0), timedelta(seconds=1)):
        since, until = HOUR - offset, HOUR + timedelta(hours=2)
        criteria = Filter(since=since, until=until, kind="scan", teams=teams)
        assert (await store.analytics.totals(criteria)).scans == count
        buckets = await store.analytics.over_time(since, until, 3600, criteria)
        assert sum(bucket.scans for bucket in buckets) == count
        assert sum((await store.analytics.by_label(criteria)).values()) == count
        assert sum(group.scans for group in await store.analytics.by("key_id", criteria)) == count
        assert sum(group.scans for group in await store.analytics.by_rule(criteria)) == count
        assert bool(await store.analytics.latency(criteria)) is bool(count)
        assert await store.analytics.other_requests(criteria) == (teams is None or "shop" in teams)


@pytest.mark.parametrize(("teams", "count"), [(None, 8), ((), 0), (("shop",), 2), (("shop", "search"), 4)])
@pytest.mark.parametrize("seconds", [3600, 1800])
async def test_trends_are_those_of_the_teams(
    store: Store, teams: tuple[str, ...] | None, count: int, seconds: int
) -> None:
    """Threats, latency and the cost of layers, over whole hours and over parts of them."""
    await filled(store)
    steps, criteria = Steps(HOUR, HOUR + timedelta(hours=2), seconds), Filter(kind="scan", teams=teams)
    assert sum(map(sum, (await store.trends.labels(steps, criteria)).values())) == count
    assert any(await store.trends.latency(steps, criteria)) is bool(count)
    costs = await store.trends.costs(steps, criteria)
    assert sum(cost.calls for series in costs.values() for cost in series) == count


async def test_marks_and_disagreements_are_those_of_the_teams(store: Store) -> None:
    """An exception for every key is of no team."""
    await filled(store)
    for number, key_id in enumerate(("aaaaaaaa", "bbbbbbbb", None)):
        terms = (HOUR, HOUR + timedelta(days=1), key_id)
        await store.exceptions.add(RuleException(f"exc_{number}", "INJ-1", "1.x", "harmless", "ada", *terms))
        shadow = ("old", "block", 0.9, ["INJ-1"], "new", "allow", 0.1, [])
        await store.disagreements.add([Disagreement(f"dec_{number}", HOUR, key_id, *shadow)])
    for teams, count in ((None, 3), (("shop",), 1), (("shop", "search"), 2), ((), 0)):
        assert await store.exceptions.count(teams=teams) == count
        assert await store.exceptions.count("INJ-1", teams=teams) == count
        assert len(await store.exceptions.query(rule="INJ-1", teams=teams)) == count
        assert await store.exceptions.by_rule(teams) == ({"INJ-1": Marks(count, count)} if count else {})
        found = [await store.disagreements.get(f"dec_{number}", teams) for number in range(3)]
        assert sum(one is not None for one in found) == count


async def test_a_key_of_another_team_has_no_figures(store: Store) -> None:
    """Even if it is asked for by its id."""
    await filled(store)
    foreign = Filter(since=HOUR, kind="scan", key_id="bbbbbbbb", teams=("shop",))
    assert (await store.analytics.totals(foreign)).scans == 0
    assert await store.decisions.query(foreign) == []
    own = Filter(since=HOUR, kind="scan", key_id="aaaaaaaa", teams=("shop",))
    assert (await store.analytics.totals(own)).scans == 2


async def test_a_key_takes_its_decisions_to_its_new_team(store: Store) -> None:
    """A team is where the key is now; a deleted key is in none, and a successor in that of its predecessor."""
    await filled(store)
    now = datetime.now(UTC)
    await store.keys.change("aaaaaaaa", {"team": "ads"}, now)
    assert await store.keys.teams() == ["ads", "search"]
    assert await store.decisions.count(Filter(teams=("shop",))) == 0
    assert await store.decisions.count(Filter(teams=("ads",))) == 3
    template = dashboard.api_key("dddddddd", "", None)
    successor = await store.keys.rotate("aaaaaaaa", template, b"d" * 32, now + timedelta(hours=1))
    assert successor
    assert successor.team == "ads"
    await store.keys.delete("aaaaaaaa")
    assert await store.decisions.count(Filter(teams=("ads",))) == 0
