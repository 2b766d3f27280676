"""API keys: format, authentication, caches, revocation across processes, rotation, and no leaks."""

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
    CACHED_KEYS,
    ApiKey,
    KeyRing,
    KeyState,
    _checksum,
    _put,
    differences,
    digest,
    generate,
    well_formed,
)
from sidecar.config import Auth
from sidecar.errors import ConfigError, NoSuchKey, RequestError, Unauthorized, Unavailable
from sidecar.storage import Store, Terms
from sidecar.util.units import Rate

QUICK = Auth(cache=0.2)


@pytest.fixture
async def ring(store: Store) -> AsyncIterator[KeyRing]:
    """A key ring on a store of each kind."""
    made = KeyRing(store, Auth())
    await made.start()
    yield made
    await made.close()


async def refused(ring: KeyRing, value: str | None) -> str:
    """The words of a 401."""
    with pytest.raises(Unauthorized) as caught:
        await ring.authenticate(value)
    return caught.value.detail


def contents(folder: Path) -> bytes:
    """Everything that the files of a folder hold."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def refused_soon(ring: KeyRing, value: str) -> None:
    """Wait until a value is refused: five seconds are the promise."""
    for _ in range(250):
        try:
            await ring.authenticate(value)
        except Unauthorized:
            return
        await asyncio.sleep(0.02)
    pytest.fail("still accepted after five seconds")


def test_a_value_has_the_documented_form() -> None:
    """`psk_`, 8 characters of id, 43 of secret, 6 of checksum, all base 62, never the same twice."""
    made = [generate() for _ in range(500)]
    for value, key_id in made:
        assert len(value) == 61
        assert value.startswith(f"psk_{key_id}")
        assert len(key_id) == 8
        assert value[4:].isascii()
        assert value[4:].isalnum()
        assert well_formed(value)
    assert len({value for value, _ in made}) == 500


@given(st.text(max_size=80))
def test_junk_is_not_well_formed(junk: str) -> None:
    """Whatever is sent as a key, the check gives an answer, and for junk the answer is no."""
    assert not well_formed(junk)
    assert not well_formed("psk_" + junk)


def test_a_typo_fails_the_checksum() -> None:
    """Each single changed character, and each swap of two neighbours, is noticed."""
    value, _ = generate()
    for place in range(4, len(value)):
        other = "A" if value[place] != "A" else "B"
        assert not well_formed(value[:place] + other + value[place + 1 :])
    swapped = [value[:n] + value[n + 1] + value[n] + value[n + 2 :] for n in range(4, 59) if value[n] != value[n + 1]]
    assert not any(well_formed(one) for one in swapped)


def test_digits_of_other_alphabets_are_no_digits() -> None:
    """Full-width and Arabic digits do not pass for ASCII."""
    value, _ = generate()
    assert not well_formed(value[:-1] + "１")
    assert not well_formed("psk_" + "٣" * 57)


async def test_a_new_key_authenticates_and_keeps_its_terms(ring: KeyRing) -> None:
    """The key found is the key created, limits and all."""
    key, value = await ring.create(
        "my app", environment="production", rate=Rate(5, 1.0), burst=2, threshold=0.3, mode="monitor"
    )
    assert await ring.authenticate(value) == key
    assert [found.id for found in await ring.list()] == [key.id]


async def test_every_refusal_says_the_same(ring: KeyRing) -> None:
    """Missing, junk, unknown, wrong secret, expired and revoked keys cannot be told apart."""
    revoked, revoked_value = await ring.create("a")
    await ring.revoke(revoked.id)
    _, expired_value = await ring.create("b", expires=timedelta(0))
    _, good = await ring.create("c")
    other = generate()[0]
    wrong_secret = good[:12] + other[12:]
    cases = [None, "", "psk_", "x" * 10_000, "psk_é", other, wrong_secret, revoked_value, expired_value]
    assert {await refused(ring, value) for value in cases} == {"The API key is missing or not valid."}


async def test_keys_are_compared_in_constant_time(ring: KeyRing) -> None:
    """By digests of one length, once for a right secret, a wrong one and an unknown id: no difference ends it early."""
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


async def test_a_right_checksum_with_a_wrong_secret_is_refused(ring: KeyRing) -> None:
    """The id of a valid key with another well-formed secret is no key."""
    key, value = await ring.create("a")
    forged = value[:12] + generate()[0][12:55]
    forged += _checksum(forged)
    assert well_formed(forged)
    assert await refused(ring, forged)
    assert (await ring.authenticate(value)).id == key.id


async def test_junk_costs_no_question_to_the_store(tmp_path: Path) -> None:
    """With the store gone, junk is still a 401; a well-formed unknown key is a 503."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth())
    async with store._database.write() as connection:
        await connection.execute(text("DROP TABLE api_keys"))
    for junk in (None, "", "psk_junk", "x" * 61):
        assert await refused(ring, junk)
    with pytest.raises(Unavailable) as caught:
        await ring.authenticate(generate()[0])
    assert caught.value.retry_after == 1
    await store.close()


async def test_expiry_holds_without_a_look_up(ring: KeyRing) -> None:
    """A key believed from the cache ends at its moment all the same."""
    _, value = await ring.create("a", expires=timedelta(seconds=1))
    await ring.authenticate(value)
    await refused_soon(ring, value)


async def test_revocation_holds_at_once_here_and_soon_elsewhere(store_url: str) -> None:
    """The replica that revokes refuses from then on, another one within its cache time."""
    stores = [await Store.open(store_url), await Store.open(store_url)]
    here, there = (KeyRing(store, QUICK) for store in stores)
    key, value = await here.create("a")
    await here.authenticate(value)
    await there.authenticate(value)
    await here.revoke(key.id)
    assert await refused(here, value)
    await refused_soon(there, value)
    for ring, store in zip((here, there), stores, strict=True):
        await ring.close()
        await store.close()


async def test_no_setting_believes_a_key_for_longer_than_five_seconds(tmp_path: Path) -> None:
    """`auth.cache` can shorten the promise of five seconds, never stretch it."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth(cache=3600.0))
    _, value = await ring.create("a")
    await ring.authenticate(value)
    assert max(until for _, until in ring._known.values()) <= time.monotonic() + 5
    await store.close()


async def test_a_revoked_key_is_not_believed_again_by_a_question_on_its_way(ring: KeyRing) -> None:
    """Many requests and a revocation at the same moment: afterwards nobody gets in."""
    for _ in range(20):
        key, value = await ring.create("a")
        asking = [asyncio.ensure_future(ring.authenticate(value)) for _ in range(5)]
        await ring.revoke(key.id)
        await asyncio.gather(*asking, return_exceptions=True)
        assert await refused(ring, value)


async def test_a_deleted_key_is_refused_at_once(ring: KeyRing) -> None:
    """Deleting is revoking and forgetting."""
    key, value = await ring.create("a")
    await ring.authenticate(value)
    await ring.delete(key.id)
    assert await refused(ring, value)
    assert await ring.list() == []


async def test_other_terms_hold_at_once_here_and_soon_elsewhere(store_url: str) -> None:
    """The limits, the threshold, the mode and the end of a key, on the replica that changes them and on another."""
    stores = [await Store.open(store_url), await Store.open(store_url)]
    here, there = (KeyRing(store, QUICK) for store in stores)
    key, value = await here.create("a", rate=Rate(5, 1.0))
    for ring in (here, there):
        await ring.authenticate(value)
    terms: Terms = {"rate": Rate(9, 60.0), "threshold": 0.3, "mode": "monitor"}
    before, after = await here.change(key.id, terms)
    assert (before, (after.rate, after.threshold, after.mode)) == (key, (Rate(9, 60.0), 0.3, "monitor"))
    assert await here.authenticate(value) == after
    for _ in range(250):
        if await there.authenticate(value) == after:
            break
        await asyncio.sleep(0.02)
    assert await there.authenticate(value) == after
    await here.change(key.id, {"expires_at": datetime.now(UTC) + timedelta(seconds=1)})
    await refused_soon(here, value)
    await refused_soon(there, value)
    for ring, store in zip((here, there), stores, strict=True):
        await ring.close()
        await store.close()


async def test_a_key_that_has_ended_stays_so(ring: KeyRing) -> None:
    """Neither other terms nor a later end bring it back; an end in the past is no term."""
    key, value = await ring.create("a")
    past = datetime.now(UTC) - timedelta(seconds=1)
    for terms, param in (({"expires_at": past}, "expires"), ({"burst": 0}, "burst"), ({"mode": "off"}, "mode")):
        with pytest.raises(RequestError) as caught:
            await ring.change(key.id, terms)  # type: ignore[arg-type]
        assert caught.value.param == param
    await ring.revoke(key.id)
    with pytest.raises(RequestError, match="revoked; only a valid key can be changed"):
        await ring.change(key.id, {"expires_at": datetime.now(UTC) + timedelta(days=1)})
    assert await refused(ring, value)
    with pytest.raises(NoSuchKey):
        await ring.change("unknown1", {})


def test_what_changed_is_said_for_the_audit_trail() -> None:
    """Every term that differs, before and after, as people write it."""
    old = ApiKey("abcdefgh", "a", "staging", datetime(2026, 5, 1, tzinfo=UTC), rate=Rate(600, 60.0), threshold=0.5)
    new = replace(old, rate=None, threshold=0.7, expires_at=datetime(2027, 1, 1, tzinfo=UTC))
    said = "expires_at none to 2027-01-01 00:00:00+00:00"
    assert sorted(differences(old, new).split(", ")) == [said, "rate 600/minute to none", "threshold 0.5 to 0.7"]
    assert differences(old, old) == ""


async def test_a_key_is_known_once_it_was_found(tmp_path: Path) -> None:
    """Until its end is heard of; strangers and junk never are."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth())
    key, value = await ring.create("a")
    assert not any(ring.knows(candidate) for candidate in (value, None, "", "junk", "psk_\udcff", generate()[0]))
    await ring.authenticate(value)
    assert ring.knows(value)
    await ring.revoke(key.id)
    assert not ring.knows(value)
    await ring.close()
    await store.close()


async def test_both_keys_work_during_the_grace_of_a_rotation(ring: KeyRing) -> None:
    """Afterwards only the new one does."""
    old, old_value = await ring.create("a", environment="staging")
    new, new_value = await ring.rotate(old.id, timedelta(seconds=1))
    assert (new.name, new.environment) == ("a", "staging")
    assert new.id != old.id
    assert (await ring.authenticate(old_value)).id == old.id
    assert (await ring.authenticate(new_value)).id == new.id
    await refused_soon(ring, old_value)
    assert (await ring.authenticate(new_value)).id == new.id


async def test_what_cannot_be_done_is_said(ring: KeyRing) -> None:
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
    """A name that could break a line, a terminal or a table is refused."""
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
async def test_terms_are_checked(tmp_path: Path, terms: dict[str, object], param: str) -> None:
    """The error names the field."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    with pytest.raises(RequestError) as caught:
        await KeyRing(store, Auth()).create("a", **terms)
    assert caught.value.param == param
    await store.close()


async def test_last_uses_reach_the_store(store: Store) -> None:
    """They are written together, at the latest on close."""
    ring = KeyRing(store, Auth())
    key, value = await ring.create("a")
    before = datetime.now(UTC)
    await ring.authenticate(value)
    await ring.close()
    found = (await ring.list())[0]
    assert found.id == key.id
    assert found.last_used_at is not None
    assert before <= found.last_used_at <= datetime.now(UTC)


async def test_one_question_serves_all_who_wait_for_the_same_key(ring: KeyRing) -> None:
    """A thousand requests with a key that nobody knows yet, and one of them leaves."""
    key, value = await ring.create("a")
    asking = [asyncio.ensure_future(ring.authenticate(value)) for _ in range(1000)]
    await asyncio.sleep(0)
    assert len(ring._asking) == 1
    asking[0].cancel()
    found = await asyncio.gather(*asking[1:])
    assert {one.id for one in found} == {key.id}


def test_the_caches_are_bounded() -> None:
    """However many keys are tried, what is remembered does not grow beyond the bound; the newest stay."""
    cache: dict[bytes, int] = {}
    for number in range(CACHED_KEYS + 5):
        _put(cache, number.to_bytes(32, "big"), number)
    assert len(cache) == CACHED_KEYS
    assert set(cache.values()) == set(range(5, CACHED_KEYS + 5))


async def test_a_flood_of_unknown_keys_does_not_keep_out_known_ones(store: Store) -> None:
    """A key whose cache time is over passes a thousand well-formed strangers that wait for the store."""
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


async def test_a_store_that_is_down_never_opens_unless_a_grace_is_set() -> None:
    """A key of the cache is believed for its time, then it is a 503; with `auth.stale_grace` for that much longer."""
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


async def test_a_pepper_belongs_to_the_digest(store: Store, tmp_path: Path) -> None:
    """Keys made with a pepper are unknown without it; what is stored is an HMAC."""
    pepper = tmp_path / "pepper"
    pepper.write_text("0123456789abcdef0123\n")
    with_pepper, without = KeyRing(store, Auth(pepper_file=pepper)), KeyRing(store, Auth())
    key, value = await with_pepper.create("a")
    assert (await with_pepper.authenticate(value)).id == key.id
    assert await refused(without, value)
    found = await store.keys.get(key.id)
    assert found is not None
    assert found[1] == digest(value, b"0123456789abcdef0123")


async def test_a_bad_pepper_file_is_a_configuration_error(tmp_path: Path) -> None:
    """Missing or too short, and the file is named."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    (tmp_path / "short").write_text("short")
    for name in ("missing", "short"):
        with pytest.raises(ConfigError, match=name):
            KeyRing(store, Auth(pepper_file=tmp_path / name))
    await store.close()


async def test_no_value_is_stored_or_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither the file nor anything printed holds a value, or the secret part of one."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    ring = KeyRing(store, Auth())
    key, first = await ring.create("a")
    await ring.authenticate(first)
    _, second = await ring.rotate(key.id, timedelta(hours=1))
    await ring.authenticate(second)
    await ring.revoke(key.id)
    await refused(ring, first)
    await ring.close()
    await store.close()
    printed = "".join(capfd.readouterr())
    assert "key_revoked" in printed
    raw = contents(tmp_path)
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
    """A process that creates, rotates and revokes."""
    return subprocess.run([sys.executable, "-c", MANY, url, name], capture_output=True, timeout=60, check=False)


async def test_several_processes_manage_keys_at_once(store: Store, store_url: str) -> None:
    """Three processes create, rotate and revoke beside an open store: nothing fails and nothing is lost."""
    ended = await asyncio.gather(*(asyncio.to_thread(manage_keys, store_url, str(n)) for n in range(3)))
    assert [process.stderr for process in ended] == [b""] * 3
    now = datetime.now(UTC)
    states = [key.state(now) for key in await store.keys.list()]
    assert len(states) == 60
    assert {state: states.count(state) for state in KeyState} == {
        KeyState.VALID: 15,
        KeyState.REVOKED: 15,
        KeyState.EXPIRED: 30,
    }
