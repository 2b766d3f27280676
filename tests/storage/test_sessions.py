"""Tests of dashboard sessions on each database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from sidecar.errors import StoreError
from sidecar.storage import Role, Session, Store
from sidecar.storage.schema import admins

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ONE, TWO = b"\x01" * 32, b"\x02" * 32


@pytest.fixture(autouse=True)
async def ada(store: Store) -> None:
    """An account for the sessions."""
    async with store._database.write() as connection:
        row = {"name": "ada", "role": "admin", "password": "hash", "created_at": NOW}
        await connection.execute(insert(admins), row)


async def find(store: Store, now: datetime) -> Session | None:
    """The session as of `now`, with an idle time of an hour and a lifetime of a day."""
    return await store.sessions.find(ONE, used_after=now - HOUR, created_after=now - 24 * HOUR)


async def test_a_session_ends_when_idle_and_when_old(store: Store) -> None:
    """Use extends it, up to a day in all."""
    await store.sessions.open(ONE, "ada", "127.0.0.1", NOW)
    assert await find(store, NOW) == Session(ONE, "ada", Role.ADMIN, NOW, NOW, "127.0.0.1")
    assert await find(store, NOW + HOUR) is None
    await store.sessions.touch(ONE, NOW + HOUR)
    assert await find(store, NOW + HOUR)
    await store.sessions.touch(ONE, NOW + 24 * HOUR)
    assert await find(store, NOW + 24 * HOUR) is None


async def test_the_role_is_the_current_one(store: Store) -> None:
    """A session stores no role of its own."""
    await store.sessions.open(ONE, "ada", "::1", NOW)
    async with store._database.write() as connection:
        await connection.execute(admins.update().values(role="viewer"))
    session = await find(store, NOW)
    assert session
    assert session.role is Role.VIEWER


async def test_a_login_is_recorded_and_needs_an_account(store: Store) -> None:
    """An unknown name gets no session."""
    await store.sessions.open(ONE, "ada", "::1", NOW)
    session = await store.admins.get("ada")
    assert session
    assert session.last_login_at == NOW
    with pytest.raises(StoreError):
        await store.sessions.open(TWO, "nobody", "::1", NOW)


async def test_sessions_are_closed_singly_or_together(store: Store) -> None:
    """One, all of an account, or all expired ones."""
    for digest, created in ((ONE, NOW), (TWO, NOW + HOUR)):
        await store.sessions.open(digest, "ada", "::1", created)
    assert [session.digest for session in await store.sessions.list("ada")] == [TWO, ONE]
    await store.sessions.purge(used_before=NOW, created_before=NOW - HOUR)
    assert [session.digest for session in await store.sessions.list("ada")] == [TWO]
    await store.sessions.open(ONE, "ada", "::1", NOW)
    await store.sessions.close(ONE)
    assert await find(store, NOW) is None
    await store.sessions.close_all("ada")
    assert await store.sessions.list("ada") == []
