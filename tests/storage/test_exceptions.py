"""Tests of exceptions from rules, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from storage.test_analytics import PLAIN

from sidecar.storage import Marks, RuleException, Store

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ONE = RuleException("exc_1", "INJ-100", "1.ab", "a lesson on injections", "anna", NOW, NOW + timedelta(days=30))


async def test_an_exception_is_returned_as_stored(store: Store) -> None:
    """All fields, including empty ones."""
    full = replace(ONE, id="exc_2", key_id="k1234567", decision="dec_1", created_at=NOW + timedelta(seconds=1))
    await store.exceptions.add(ONE)
    await store.exceptions.add(full)
    assert await store.exceptions.query() == [full, ONE]
    assert await store.exceptions.get("exc_1") == ONE
    assert await store.exceptions.get("exc_9") is None


async def test_only_applicable_exceptions_are_valid(store: Store) -> None:
    """Expired and revoked ones are listed but do not apply."""
    await store.exceptions.add(ONE)
    await store.exceptions.add(replace(ONE, id="exc_old", expires_at=NOW - timedelta(seconds=1)))
    await store.exceptions.add(replace(ONE, id="exc_gone"))
    assert await store.exceptions.revoke("exc_gone", NOW, "bert")
    assert [exception.id for exception in await store.exceptions.valid(NOW)] == ["exc_1"]
    revoked = await store.exceptions.get("exc_gone")
    assert revoked is not None
    assert (revoked.revoked_by, revoked.revoked_at, revoked.is_valid(NOW), ONE.is_valid(NOW)) == (
        "bert",
        NOW,
        False,
        True,
    )
    assert not ONE.is_valid(ONE.expires_at)


async def test_revoking_twice_or_an_unknown_exception_returns_false(store: Store) -> None:
    """The first revocation stays."""
    await store.exceptions.add(ONE)
    assert await store.exceptions.revoke("exc_1", NOW, "bert")
    assert not await store.exceptions.revoke("exc_1", NOW, "carla")
    assert not await store.exceptions.revoke("exc_9", NOW, "carla")


async def test_hostile_text_is_stored_as_text(store: Store) -> None:
    """Reasons are free text: NUL is replaced, longer text truncated."""
    await store.exceptions.add(replace(ONE, reason="<script>\x00" + "x" * 600, author="a'; DROP TABLE exceptions;--"))
    (stored,) = await store.exceptions.query()
    assert (len(stored.reason), "\x00" in stored.reason, stored.author) == (500, False, "a'; DROP TABLE exceptions;--")


async def test_exceptions_are_purged_by_their_end(store: Store) -> None:
    """Not by their creation."""
    await store.exceptions.add(ONE)
    await store.exceptions.add(replace(ONE, id="exc_old", expires_at=NOW - timedelta(days=2)))
    assert await store.exceptions.purge(NOW - timedelta(days=1)) == 1
    assert [exception.id for exception in await store.exceptions.query()] == ["exc_1"]


async def test_marks_are_counted_by_rule(store: Store) -> None:
    """All of them, however many: exceptions, and the decisions that they were made from."""
    for n in range(7):
        rule, decision = "INJ-1" if n < 5 else "INJ-2", f"dec_{n // 2}" if n < 6 else None
        await store.exceptions.add(replace(ONE, id=str(n), rule=rule, decision=decision))
    assert await store.exceptions.by_rule() == {"INJ-1": Marks(5, 3), "INJ-2": Marks(2, 2)}
    assert [await store.exceptions.count(rule) for rule in ("", "INJ-1", "INJ-3")] == [7, 5, 0]
    part = await store.exceptions.query(2, offset=1, rule="INJ-2")
    assert [one.id for one in part] == ["6"]


async def test_the_exceptions_of_a_mark_are_read_together(store: Store) -> None:
    """Page by page, of all, of a rule or of teams; counted as marks."""
    start = datetime(2026, 5, 1, tzinfo=UTC)
    for number in range(6):
        exception = RuleException(
            f"e{number}",
            f"R-{number % 2}",
            "d",
            "why",
            "ada",
            start + timedelta(hours=number // 2),
            start + timedelta(9),
        )
        await store.exceptions.add(replace(exception, decision=f"dec_{number // 2}"))
    await store.exceptions.add(RuleException("alone", "R-0", "d", "why", "ada", start, start + timedelta(9)))
    marks = await store.exceptions.marks(3)
    assert [[each.id for each in mark] for mark in marks] == [["e4", "e5"], ["e2", "e3"], ["alone"]]
    assert [[each.id for each in mark] for mark in await store.exceptions.marks(3, offset=3)] == [["e0", "e1"]]
    assert (await store.exceptions.count_marks(), await store.exceptions.count_marks("R-1")) == (4, 3)
    assert await store.exceptions.count_marks(teams=["a"]) == 0
    assert [each.id for each in await store.exceptions.of_decision("dec_1")] == ["e2", "e3"]


async def test_how_often_an_exception_applied_is_counted_among_the_newest_decisions(store: Store) -> None:
    """By rule or layer, text and key; older decisions than the window, and findings that counted, do not."""
    start = datetime(2026, 5, 1, tzinfo=UTC)
    finding = {"rule": "R-1", "layer": "rules", "digest": "d", "excepted": True}
    rows = [
        replace(PLAIN, id=f"dec_{number}", at=start + timedelta(seconds=number), key_id=f"k{number % 2}")
        for number in range(10)
    ]
    await store.decisions.add([replace(row, findings=[finding, finding]) for row in rows])
    await store.decisions.add([replace(PLAIN, id="dec_x", findings=[{**finding, "excepted": False}])])
    any_key = RuleException("e1", "R-1", "d", "why", "ada", start, start)
    exceptions = [
        any_key,
        replace(any_key, id="e2", key_id="k1"),
        replace(any_key, id="e3", rule="rules:*"),
        replace(any_key, id="e4", digest="x"),
        replace(any_key, id="e5", rule="semantic:*"),
    ]
    assert await store.exceptions.applied(exceptions, 100) == {"e1": 10, "e2": 5, "e3": 10, "e4": 0, "e5": 0}
    assert (await store.exceptions.applied([any_key], 4))["e1"] in {3, 4}
    assert await store.exceptions.applied([], 100) == {}
