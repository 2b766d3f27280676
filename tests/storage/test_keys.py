"""Tests of key records on each database: written, read, revoked, rotated concurrently."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sidecar.storage import ApiKey, KeyState, Store
from sidecar.util.units import Rate

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
FULL = ApiKey(
    id="abcdefgh",
    name="=cmd() <script> '; DROP TABLE api_keys",
    environment="production",
    created_at=NOW,
    expires_at=NOW + timedelta(days=90),
    rate=Rate(10, 60.0),
    burst=3,
    threshold=0.4,
    mode="monitor",
)


def heir(key_id: str) -> ApiKey:
    """The successor of a rotation: an id and a creation time, the other fields are inherited."""
    return ApiKey(key_id, "", "", NOW + timedelta(days=1))


async def test_a_key_is_returned_as_stored(store: Store) -> None:
    """All fields, set and empty, and the digest."""
    bare = ApiKey("12345678", "bare", "staging", NOW - timedelta(days=1))
    await store.keys.add(FULL, b"\x00" * 31 + b"\xff")
    await store.keys.add(bare, bytes(32))
    assert await store.keys.get("abcdefgh") == (FULL, b"\x00" * 31 + b"\xff")
    assert await store.keys.list() == [bare, FULL]
    assert await store.keys.get("unknown") is None


async def test_keys_with_terms_of_their_own_are_found(store: Store) -> None:
    """A mode, a threshold or rules; not a rate alone, and no revoked one."""
    plain = ApiKey("12345678", "plain", "staging", NOW, rate=Rate(10, 60.0))
    terms = [
        replace(plain, id=f"term000{n}", **given) for n, given in enumerate(({"mode": "monitor"}, {"threshold": 1.0}))
    ]
    for key in (plain, *terms, replace(plain, id="term0002", rules="INJ-1=off"), FULL):
        await store.keys.add(key, key.id.encode() * 4)
    await store.keys.revoke(FULL.id, NOW)
    assert [key.id for key in await store.keys.with_terms()] == ["term0000", "term0001", "term0002"]


@pytest.mark.parametrize("hostile", ["' OR 1=1 --", "a\x00b", "\ud800", "x" * 100_000])
async def test_hostile_ids_match_nothing(store: Store, hostile: str) -> None:
    """An id is a parameter, never part of a statement."""
    await store.keys.add(FULL, bytes(32))
    assert await store.keys.get(hostile) is None
    assert not await store.keys.delete(hostile)
    assert await store.keys.list() == [FULL]


async def test_a_valid_key_can_be_changed(store: Store) -> None:
    """Only the named fields change; `None` resets one."""
    await store.keys.add(FULL, b"d" * 32)
    result = await store.keys.change(FULL.id, {"rate": Rate(7, 3600.0), "burst": None, "expires_at": None}, NOW)
    after = replace(FULL, rate=Rate(7, 3600.0), burst=None, expires_at=None)
    assert result == (FULL, after)
    assert await store.keys.get(FULL.id) == (after, b"d" * 32)
    assert await store.keys.change(FULL.id, {}, NOW) == (after, after)


async def test_an_ended_key_cannot_be_changed(store: Store) -> None:
    """Whether expired, revoked or unknown."""
    await store.keys.add(FULL, bytes(32))
    await store.keys.add(replace(FULL, id="12345678"), bytes(32))
    await store.keys.revoke("12345678", NOW)
    later = NOW + timedelta(days=90)
    for key_id, now in ((FULL.id, later), ("12345678", NOW), ("unknown", NOW)):
        assert await store.keys.change(key_id, {"expires_at": None, "rate": None}, now) is None
    assert await store.keys.get(FULL.id) == (FULL, bytes(32))


async def test_the_first_revocation_stays(store: Store) -> None:
    """Revoking twice keeps the first time; an unknown id has its own result."""
    await store.keys.add(FULL, bytes(32))
    assert await store.keys.revoke(FULL.id, NOW)
    assert await store.keys.revoke(FULL.id, NOW + timedelta(hours=1))
    assert not await store.keys.revoke("unknown", NOW)
    row = await store.keys.get(FULL.id)
    assert row is not None
    assert row[0].revoked_at == NOW


async def test_a_deleted_key_is_gone(store: Store) -> None:
    """Deleting returns whether there was a key."""
    await store.keys.add(FULL, bytes(32))
    assert await store.keys.delete(FULL.id)
    assert not await store.keys.delete(FULL.id)
    assert await store.keys.list() == []


async def test_a_successor_inherits_and_the_old_key_expires(store: Store) -> None:
    """Name, limits and lifetime are inherited; the old key expires at the given time, never later than before."""
    await store.keys.add(FULL, bytes(32))
    key = await store.keys.rotate(FULL.id, heir("ijklmnop"), b"\x01" * 32, NOW + timedelta(days=2))
    assert key is not None
    assert (key.name, key.rate, key.burst, key.mode) == (FULL.name, FULL.rate, FULL.burst, FULL.mode)
    assert key.expires_at == key.created_at + timedelta(days=90)
    old = await store.keys.get(FULL.id)
    assert old is not None
    assert (old[0].expires_at, old[0].successor) == (NOW + timedelta(days=2), "ijklmnop")
    later = await store.keys.rotate("ijklmnop", heir("qrstuvwx"), b"\x02" * 32, NOW + timedelta(days=900))
    middle = await store.keys.get("ijklmnop")
    assert later is not None
    assert middle is not None
    assert middle[0].expires_at == key.expires_at


async def test_only_a_valid_key_without_successor_is_rotated(store: Store) -> None:
    """Revoked, expired, rotated and unknown keys are unchanged."""
    await store.keys.add(FULL, bytes(32))
    expired = ApiKey("expired0", "n", "staging", NOW, expires_at=NOW + timedelta(seconds=1))
    revoked = ApiKey("revoked0", "n", "staging", NOW, revoked_at=NOW)
    for key in (expired, revoked):
        await store.keys.add(key, bytes(32))
    assert await store.keys.rotate(FULL.id, heir("ijklmnop"), bytes(32), NOW) is not None
    for number, key_id in enumerate((FULL.id, "expired0", "revoked0", "unknown")):
        assert await store.keys.rotate(key_id, heir(f"{number:08}"), bytes(32), NOW) is None
    assert len(await store.keys.list()) == 4


async def test_concurrent_rotations_succeed_once(store_url: str) -> None:
    """Two stores on one database, ten rotations of one key: exactly one successor."""
    stores = [await Store.open(store_url), await Store.open(store_url)]
    await stores[0].keys.add(FULL, bytes(32))
    key = await asyncio.gather(
        *(stores[n % 2].keys.rotate(FULL.id, heir(f"{n:08}"), bytes(32), NOW + timedelta(days=2)) for n in range(10))
    )
    assert len([key for key in key if key]) == 1
    assert len(await stores[1].keys.list()) == 2
    for store in stores:
        await store.close()


async def test_last_uses_are_saved_in_a_batch(store: Store) -> None:
    """A key deleted in the meantime is no error."""
    await store.keys.add(FULL, bytes(32))
    await store.keys.touch({FULL.id: NOW, "unknown": NOW})
    row = await store.keys.get(FULL.id)
    assert row is not None
    assert row[0].last_used_at == NOW


def test_states_follow_the_wall_clock() -> None:
    """A key is expired from its expiry on; revoked takes precedence over expired."""
    key = ApiKey("12345678", "n", "staging", NOW, expires_at=NOW + timedelta(days=1))
    assert key.state(NOW) is KeyState.VALID
    assert key.state(NOW + timedelta(days=1)) is KeyState.EXPIRED
    revoked = ApiKey("12345678", "n", "staging", NOW, expires_at=NOW, revoked_at=NOW)
    assert revoked.state(NOW) is KeyState.REVOKED


def test_the_dictionary_is_readable() -> None:
    """The rate is text, and the digest is not included."""
    fields = FULL.as_dict()
    assert fields["rate"] == "10 per 60 s"
    assert "digest" not in fields
