"""Tests of exceptions from rules, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

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
