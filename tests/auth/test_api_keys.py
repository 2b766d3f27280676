"""Tests of API keys: format, authentication, caches, revocation across processes, rotation, and no leaks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import servers
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from sidecar.auth.api_keys import (
    MAX_CACHED_KEYS,
    ApiKey,
    KeyRing,
    KeyState,
    _cache,
    _checksum,
    describe_changes,
    digest,
    generate,
    well_formed,
)
from sidecar.config import Auth
from sidecar.errors import ConfigError, NoSuchKey, RequestError, Unauthorized, Unavailable
from sidecar.storage import KeyChanges, Store
from sidecar.util.units import Rate

QUICK = Auth(cache=0.2)


@pytest.fixture
async def ring(store: Store) -> AsyncIterator[KeyRing]:
    """A key ring on each kind of database."""
    ring = KeyRing(store, Auth())
    await ring.start()
    yield ring
    await ring.close()


async def rejected(ring: KeyRing, value: str | None) -> str:
    """The message of a 401."""
    with pytest.raises(Unauthorized) as caught:
        await ring.authenticate(value)
    return caught.value.detail


def read_all(folder: Path) -> bytes:
    """The content of all files of a folder."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def rejected_soon(ring: KeyRing, value: str) -> None:
    """Wait until a value is rejected, for the promised five seconds at most."""
    for _ in range(250):
        try:
            await ring.authenticate(value)
        except Unauthorized:
            return
        await asyncio.sleep(0.02)
    pytest.fail("still accepted after five seconds")


def test_a_value_has_the_documented_form() -> None:
    """`psk_`, 8 characters of id, 43 of secret, 6 of checksum, all base 62, never the same twice."""
    created = [generate() for _ in range(500)]
    for value, key_id in created:
        assert len(value) == 61
        assert value.startswith(f"psk_{key_id}")
        assert len(key_id) == 8
        assert value[4:].isascii()
        assert value[4:].isalnum()
        assert well_formed(value)
    assert len({value for value, _ in created}) == 500


@given(st.text(max_size=80))
def test_junk_is_not_well_formed(junk: str) -> None:
    """The check handles any text, and rejects junk."""
    assert not well_formed(junk)
    assert not well_formed("psk_" + junk)


def test_a_typo_fails_the_checksum() -> None:
    """Each changed character and each swap of two neighbours is detected."""
    value, _ = generate()
    for place in range(4, len(value)):
        letter = "A" if value[place] != "A" else "B"
        assert not well_formed(value[:place] + letter + value[place + 1 :])
    swapped = [value[:n] + value[n + 1] + value[n] + value[n + 2 :] for n in range(4, 59) if value[n] != value[n + 1]]
    assert not any(well_formed(candidate) for candidate in swapped)


def test_non_ascii_digits_are_rejected() -> None:
    """Full-width and Arabic digits do not pass for ASCII."""
    value, _ = generate()
    assert not well_formed(value[:-1] + "１")
    assert not well_formed("psk_" + "٣" * 57)


async def test_a_new_key_authenticates(ring: KeyRing) -> None:
    """The authenticated key equals the created one, including its limits."""
    key, value = await ring.create(
        "my app", environment="production", rate=Rate(5, 1.0), burst=2, threshold=0.3, mode="monitor"
    )
    assert await ring.authenticate(value) == key
    assert [stored.id for stored in await ring.list()] == [key.id]


async def test_every_rejection_has_the_same_message(ring: KeyRing) -> None:
    """Missing, junk, unknown, wrong secret, expired and revoked keys cannot be told apart."""
    revoked, revoked_value = await ring.create("a")
    await ring.revoke(revoked.id)
    _, expired_value = await ring.create("b", expires=timedelta(0))
    _, good = await ring.create("c")
    unknown = generate()[0]
    wrong_secret = good[:12] + unknown[12:]
    cases = [None, "", "psk_", "x" * 10_000, "psk_é", unknown, wrong_secret, revoked_value, expired_value]
    (message,) = {await rejected(ring, value) for value in cases}
    assert "X-API-Key" in message


async def test_keys_are_compared_in_constant_time(ring: KeyRing) -> None:
    """One comparison of equal-length digests, whether the secret is right, wrong or the id unknown."""
    _, value = await ring.create("a")
    forged = value[:12] + generate()[0][12:55]
    compared: list[str] = []

    def note(_frame: object, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") == "compare_digest":
            compared.append(event)

    for candidate in (value, forged + _checksum(forged), generate()[0]):
        compared.clear()
        sys.setprofile(note)
        try:
            await asyncio.gather(ring.authenticate(candidate), return_exceptions=True)
        finally:
            sys.setprofile(None)
        assert len(compared) == 1


async def test_a_valid_checksum_with_a_wrong_secret_is_rejected(ring: KeyRing) -> None:
    """The id of a valid key with another well-formed secret is not a key."""
    key, value = await ring.create("a")
    forged = value[:12] + generate()[0][12:55]
    forged += _checksum(forged)
    assert well_formed(forged)
    assert await rejected(ring, forged)
    assert (await ring.authenticate(value)).id == key.id


async def test_junk_causes_no_query(tmp_path: Path) -> None:
    """With the database broken junk is still a 401, a well-formed unknown key a 503."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth())
    async with store._database.write() as connection:
        await connection.execute(text("DROP TABLE api_keys"))
    for junk in (None, "", "psk_junk", "x" * 61):
        assert await rejected(ring, junk)
    with pytest.raises(Unavailable) as caught:
        await ring.authenticate(generate()[0])
    assert caught.value.retry_after == 1
    await store.close()


async def test_expiry_needs_no_query(ring: KeyRing) -> None:
    """A cached key expires at its time all the same."""
    _, value = await ring.create("a", expires=timedelta(seconds=1))
    await ring.authenticate(value)
    await rejected_soon(ring, value)


async def test_revocation_is_immediate_here_and_soon_elsewhere(store_url: str) -> None:
    """The revoking replica rejects the key from then on, another one within its cache time."""
    stores = [await Store.open(store_url), await Store.open(store_url)]
    first, second = (KeyRing(store, QUICK) for store in stores)
    key, value = await first.create("a")
    await first.authenticate(value)
    await second.authenticate(value)
    await first.revoke(key.id)
    assert await rejected(first, value)
    await rejected_soon(second, value)
    for ring, store in zip((first, second), stores, strict=True):
        await ring.close()
        await store.close()


async def test_no_setting_caches_a_key_for_more_than_five_seconds(tmp_path: Path) -> None:
    """`auth.cache` can only shorten the promised five seconds."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth(cache=3600.0))
    _, value = await ring.create("a")
    await ring.authenticate(value)
    assert max(until for _, until in ring._valid.values()) <= time.monotonic() + 5
    await store.close()


async def test_a_pending_query_does_not_cache_a_revoked_key(ring: KeyRing) -> None:
    """Many requests and a revocation at the same moment: afterwards every request is rejected."""
    for _ in range(20):
        key, value = await ring.create("a")
        lookup = [asyncio.ensure_future(ring.authenticate(value)) for _ in range(5)]
        await ring.revoke(key.id)
        await asyncio.gather(*lookup, return_exceptions=True)
        assert await rejected(ring, value)


async def test_a_deleted_key_is_rejected_at_once(ring: KeyRing) -> None:
    """Deleting revokes the key and removes its record."""
    key, value = await ring.create("a")
    await ring.authenticate(value)
    await ring.delete(key.id)
    assert await rejected(ring, value)
    assert await ring.list() == []


async def test_changes_are_immediate_here_and_soon_elsewhere(store_url: str) -> None:
    """The limits, the threshold, the mode and the expiry of a key, on the changing replica and on another."""
    stores = [await Store.open(store_url), await Store.open(store_url)]
    first, second = (KeyRing(store, QUICK) for store in stores)
    key, value = await first.create("a", rate=Rate(5, 1.0))
    for ring in (first, second):
        await ring.authenticate(value)
    changes: KeyChanges = {"rate": Rate(9, 60.0), "threshold": 0.3, "mode": "monitor"}
    old, new = await first.change(key.id, changes)
    assert (old, (new.rate, new.threshold, new.mode)) == (key, (Rate(9, 60.0), 0.3, "monitor"))
    assert await first.authenticate(value) == new
    for _ in range(250):
        if await second.authenticate(value) == new:
            break
        await asyncio.sleep(0.02)
    assert await second.authenticate(value) == new
    await first.change(key.id, {"expires_at": datetime.now(UTC) + timedelta(seconds=1)})
    await rejected_soon(first, value)
    await rejected_soon(second, value)
    for ring, store in zip((first, second), stores, strict=True):
        await ring.close()
        await store.close()


async def test_an_ended_key_stays_ended(ring: KeyRing) -> None:
    """No change makes it valid again; invalid changes are rejected with the field's name."""
    key, value = await ring.create("a")
    yesterday = datetime.now(UTC) - timedelta(seconds=1)
    for terms, param in (({"expires_at": yesterday}, "expires"), ({"burst": 0}, "burst"), ({"mode": "off"}, "mode")):
        with pytest.raises(RequestError) as caught:
            await ring.change(key.id, terms)  # type: ignore[arg-type]
        assert caught.value.param == param
    await ring.revoke(key.id)
    with pytest.raises(RequestError, match="revoked; only a valid key can be changed"):
        await ring.change(key.id, {"expires_at": datetime.now(UTC) + timedelta(days=1)})
    assert await rejected(ring, value)
    with pytest.raises(NoSuchKey):
        await ring.change("unknown1", {})


def test_changes_are_described_for_the_audit_trail() -> None:
    """Every changed field, before and after, in readable form."""
    old = ApiKey("abcdefgh", "a", "staging", datetime(2026, 5, 1, tzinfo=UTC), rate=Rate(600, 60.0), threshold=0.5)
    new = replace(old, rate=None, threshold=0.7, expires_at=datetime(2027, 1, 1, tzinfo=UTC))
    expiry = "expires_at none to 2027-01-01 00:00:00+00:00"
    assert sorted(describe_changes(old, new).split(", ")) == [expiry, "rate 600/minute to none", "threshold 0.5 to 0.7"]
    assert describe_changes(old, old) == ""


async def test_a_key_is_cached_once_authenticated(tmp_path: Path) -> None:
    """Until a revocation is known; unknown keys and junk never are."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth())
    key, value = await ring.create("a")
    assert not any(ring.has_cached(candidate) for candidate in (value, None, "", "junk", "psk_\udcff", generate()[0]))
    await ring.authenticate(value)
    assert ring.has_cached(value)
    await ring.revoke(key.id)
    assert not ring.has_cached(value)
    await ring.close()
    await store.close()


async def test_both_keys_are_valid_during_the_grace_of_a_rotation(ring: KeyRing) -> None:
    """Afterwards only the new one is."""
    old, old_value = await ring.create("a", environment="staging")
    new, new_value = await ring.rotate(old.id, timedelta(seconds=1))
    assert (new.name, new.environment) == ("a", "staging")
    assert new.id != old.id
    assert (await ring.authenticate(old_value)).id == old.id
    assert (await ring.authenticate(new_value)).id == new.id
    await rejected_soon(ring, old_value)
    assert (await ring.authenticate(new_value)).id == new.id


async def test_a_successor_knows_the_keys_before_it(ring: KeyRing) -> None:
    """The latest first, also when their records are deleted; exceptions made for them hold for it."""
    first, _ = await ring.create("a")
    second, _ = await ring.rotate(first.id, timedelta(hours=1))
    third, value = await ring.rotate(second.id, timedelta(hours=1))
    await ring.delete(first.id)
    assert (first.former_ids, second.former_ids) == ((), (first.id,))
    assert (await ring.authenticate(value)).former_ids == third.former_ids == (second.id, first.id)


async def test_impossible_changes_are_errors(ring: KeyRing) -> None:
    """Unknown ids are a 404; a second rotation names the successor; a revoked key cannot be rotated."""
    for attempt in (ring.revoke("unknown1"), ring.delete("unknown1"), ring.rotate("unknown1", timedelta(1))):
        with pytest.raises(NoSuchKey):
            await attempt
    key, _ = await ring.create("a")
    successor, _ = await ring.rotate(key.id, timedelta(1))
    with pytest.raises(RequestError, match=successor.id):
        await ring.rotate(key.id, timedelta(1))
    await ring.revoke(successor.id)
    with pytest.raises(RequestError, match="revoked"):
        await ring.rotate(successor.id, timedelta(1))


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x00", "\u202eabc", "\x1b[31m", "x" * 201, "\ud800"])
async def test_names_are_printable(tmp_path: Path, name: str) -> None:
    """A name that could break a line, a terminal or a table is rejected."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    with pytest.raises(RequestError) as caught:
        await KeyRing(store, Auth()).create(name)
    assert caught.value.param == "name"
    await store.close()


@pytest.mark.parametrize(
    ("terms", "param"),
    [
        ({"environment": "moon"}, "environment"),
        ({"burst": 0}, "burst"),
        ({"threshold": 1.1}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"mode": "off"}, "mode"),
    ],
)
async def test_arguments_are_validated(tmp_path: Path, terms: dict[str, object], param: str) -> None:
    """The error names the field."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    with pytest.raises(RequestError) as caught:
        await KeyRing(store, Auth()).create("a", **terms)
    assert caught.value.param == param
    await store.close()


async def test_last_uses_are_saved(store: Store) -> None:
    """They are written together, on close at the latest."""
    ring = KeyRing(store, Auth())
    key, value = await ring.create("a")
    started = datetime.now(UTC)
    await ring.authenticate(value)
    await ring.close()
    stored = (await ring.list())[0]
    assert stored.id == key.id
    assert stored.last_used_at is not None
    assert started <= stored.last_used_at <= datetime.now(UTC)


async def test_requests_with_the_same_key_share_one_query(ring: KeyRing) -> None:
    """A thousand requests with a key not yet cached, one of which is cancelled."""
    key, value = await ring.create("a")
    lookup = [asyncio.ensure_future(ring.authenticate(value)) for _ in range(1000)]
    await asyncio.sleep(0)
    assert len(ring._lookups) == 1
    lookup[0].cancel()
    results = await asyncio.gather(*lookup[1:])
    assert {result.id for result in results} == {key.id}


def test_the_caches_are_bounded() -> None:
    """However many keys are tried, the cache does not exceed its bound; the newest entries stay."""
    entries: dict[bytes, int] = {}
    for number in range(MAX_CACHED_KEYS + 5):
        _cache(entries, number.to_bytes(32, "big"), number)
    assert len(entries) == MAX_CACHED_KEYS
    assert set(entries.values()) == set(range(5, MAX_CACHED_KEYS + 5))


async def test_a_flood_of_unknown_keys_does_not_delay_known_ones(store: Store) -> None:
    """A key whose cache time is over overtakes a thousand well-formed unknown keys that wait for a query."""
    ring = KeyRing(store, Auth(cache=0.0))
    _, value = await ring.create("a")
    await ring.authenticate(value)
    strangers = [asyncio.ensure_future(ring.authenticate(generate()[0])) for _ in range(1000)]
    await asyncio.sleep(0)
    await ring.authenticate(value)
    assert sum(not stranger.done() for stranger in strangers) > 500
    outcomes = await asyncio.gather(*strangers, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {Unauthorized, Unavailable}
    await ring.close()


async def test_an_unreachable_database_fails_closed_unless_a_grace_is_set() -> None:
    """A cached key stays valid for its cache time, then it is a 503; `auth.stale_grace` extends that time."""
    with servers.postgresql() as server:
        store = await Store.open(server.new_database())
        strict, lenient = KeyRing(store, QUICK), KeyRing(store, Auth(cache=0.2, stale_grace=60.0))
        key, value = await strict.create("a")
        for ring in (strict, lenient):
            await ring.authenticate(value)
        server.stop()
        await asyncio.sleep(0.3)
        with pytest.raises(Unavailable):
            await strict.authenticate(value)
        assert (await lenient.authenticate(value)).id == key.id
        with pytest.raises(Unavailable):
            await lenient.authenticate(generate()[0])
        for ring in (strict, lenient):
            await ring.close()
        await store.close()


async def test_the_pepper_is_part_of_the_digest(store: Store, tmp_path: Path) -> None:
    """Keys created with a pepper are unknown without it; an HMAC is stored."""
    pepper = tmp_path / "pepper"
    pepper.write_text("0123456789abcdef0123\n")
    with_pepper, without = KeyRing(store, Auth(pepper_file=pepper)), KeyRing(store, Auth())
    key, value = await with_pepper.create("a")
    assert (await with_pepper.authenticate(value)).id == key.id
    assert await rejected(without, value)
    stored = await store.keys.get(key.id)
    assert stored is not None
    assert stored[1] == digest(value, b"0123456789abcdef0123")


async def test_a_bad_pepper_file_is_a_configuration_error(tmp_path: Path) -> None:
    """The error names a file that is missing or too short."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    (tmp_path / "short").write_text("short")
    for name in ("missing", "short"):
        with pytest.raises(ConfigError, match=name):
            KeyRing(store, Auth(pepper_file=tmp_path / name))
    await store.close()


async def test_no_value_is_stored_or_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither the file nor any output holds a value or the secret part of one."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth())
    key, first = await ring.create("a")
    await ring.authenticate(first)
    _, second = await ring.rotate(key.id, timedelta(hours=1))
    await ring.authenticate(second)
    await ring.revoke(key.id)
    await rejected(ring, first)
    await ring.close()
    await store.close()
    printed = "".join(capfd.readouterr())
    assert "key_revoked" in printed
    raw = read_all(tmp_path)
    for value in (first, second):
        assert value[12:55] not in printed
        assert value[12:55].encode() not in raw


MANY = """
import asyncio, sys
from datetime import timedelta
from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth
from sidecar.storage import Store

async def main():
    store = await Store.open(sys.argv[1])
    ring = KeyRing(store, Auth())
    for number in range(10):
        key, value = await ring.create(f"{sys.argv[2]} {number}")
        successor, value = await ring.rotate(key.id, timedelta(0))
        await ring.authenticate(value)
        if number % 2:
            await ring.revoke(successor.id)
    await ring.close()
    await store.close()

asyncio.run(main())
"""


def manage_keys(url: str, name: str) -> subprocess.CompletedProcess[bytes]:
    """A process that creates, rotates and revokes keys."""
    return subprocess.run([sys.executable, "-c", MANY, url, name], capture_output=True, timeout=60, check=False)


async def test_several_processes_manage_keys_at_once(store: Store, store_url: str) -> None:
    """Three processes create, rotate and revoke beside an open database: nothing fails, nothing is lost."""
    processes = await asyncio.gather(*(asyncio.to_thread(manage_keys, store_url, str(n)) for n in range(3)))
    assert [process.stderr for process in processes] == [b""] * 3
    now = datetime.now(UTC)
    states = [key.state(now) for key in await store.keys.list()]
    assert len(states) == 60
    assert {state: states.count(state) for state in KeyState} == {
        KeyState.VALID: 15,
        KeyState.REVOKED: 15,
        KeyState.EXPIRED: 30,
    }


async def test_a_key_in_use_is_looked_up_before_its_time_is_over(store: Store) -> None:
    """The request that finds it due does not wait, and the next one finds it fresh."""
    ring = KeyRing(store, Auth(cache=1.0))
    key, value = await ring.create("a")
    await ring.authenticate(value)
    ((hashed, (_, first_until)),) = ring._valid.items()
    await asyncio.sleep(max(0.0, first_until - time.monotonic() - 0.2))
    assert (await ring.authenticate(value)).id == key.id
    (lookup,) = ring._lookups.values() or (None,)
    if lookup is not None:  # on a slow machine the time was over, and the request waited
        await lookup
    assert ring._valid[hashed][1] > first_until
    await ring.close()


async def test_a_request_does_not_wait_for_the_look_up_that_it_starts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answers when the test says so: requests with a key that is due are authenticated before that.

    The key is trusted for so long that no load of the machine makes it stale meanwhile.
    """
    ring, asked, answering = KeyRing(store, Auth()), 0, asyncio.Event()
    key, value = await ring.create("a")
    await ring.authenticate(value)
    ring._cache_seconds = 10_000.0
    ((hashed, (found, _)),) = ring._valid.items()
    ring._valid[hashed] = (found, time.monotonic() + 1_000.0)  # within the last part, in which it is due
    get = store.keys.get

    async def blocked(key_id: str) -> tuple[ApiKey, bytes] | None:
        nonlocal asked
        asked += 1
        await answering.wait()
        return await get(key_id)

    monkeypatch.setattr(store.keys, "get", blocked)
    async with asyncio.timeout(60):
        for _ in range(50):
            assert (await ring.authenticate(value)).id == key.id
            await asyncio.sleep(0)
    assert (asked, answering.is_set()) == (1, False)
    answering.set()
    await next(iter(ring._lookups.values()))
    assert ring._valid[hashed][1] > time.monotonic() + 5_000.0
    await ring.close()
