"""Twin of sidecar/storage/exceptions.py, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sidecar.storage import RuleException, Store

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ONE = RuleException("exc_1", "INJ-100", "1.ab", "a lesson on injections", "anna", NOW, NOW + timedelta(days=30))


async def test_an_exception_comes_back_as_it_was(store: Store) -> None:
    """All fields, those that are empty too."""
    full = replace(ONE, id="exc_2", key_id="k1234567", decision="dec_1", created_at=NOW + timedelta(seconds=1))
    await store.exceptions.add(ONE)
    await store.exceptions.add(full)
    assert await store.exceptions.query() == [full, ONE]
    assert await store.exceptions.get("exc_1") == ONE
    assert await store.exceptions.get("exc_9") is None


async def test_only_what_holds_is_live(store: Store) -> None:
    """Expired and revoked ones are listed and do not count."""
    await store.exceptions.add(ONE)
    await store.exceptions.add(replace(ONE, id="exc_old", expires_at=NOW - timedelta(seconds=1)))
    await store.exceptions.add(replace(ONE, id="exc_gone"))
    assert await store.exceptions.revoke("exc_gone", NOW, "bert")
    assert [one.id for one in await store.exceptions.live(NOW)] == ["exc_1"]
    gone = await store.exceptions.get("exc_gone")
    assert gone is not None
    assert (gone.revoked_by, gone.revoked_at, gone.holds(NOW), ONE.holds(NOW)) == ("bert", NOW, False, True)
    assert not ONE.holds(ONE.expires_at)


async def test_revoking_twice_or_the_unknown_says_so(store: Store) -> None:
    """The first revocation stands."""
    await store.exceptions.add(ONE)
    assert await store.exceptions.revoke("exc_1", NOW, "bert")
    assert not await store.exceptions.revoke("exc_1", NOW, "carla")
    assert not await store.exceptions.revoke("exc_9", NOW, "carla")


async def test_hostile_words_are_kept_as_far_as_they_can_be(store: Store) -> None:
    """Reasons are people's text: NUL is replaced, the rest cut to its length."""
    await store.exceptions.add(replace(ONE, reason="<script>\x00" + "x" * 600, author="a'; DROP TABLE exceptions;--"))
    (found,) = await store.exceptions.query()
    assert (len(found.reason), "\x00" in found.reason, found.author) == (500, False, "a'; DROP TABLE exceptions;--")


async def test_what_ended_long_ago_is_purged(store: Store) -> None:
    """By its end, not by its beginning."""
    await store.exceptions.add(ONE)
    await store.exceptions.add(replace(ONE, id="exc_old", expires_at=NOW - timedelta(days=2)))
    assert await store.exceptions.purge(NOW - timedelta(days=1)) == 1
    assert [one.id for one in await store.exceptions.query()] == ["exc_1"]
