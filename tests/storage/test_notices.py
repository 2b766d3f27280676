"""Tests of notifications between replicas on PostgreSQL, and their absence on SQLite."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import servers

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth
from sidecar.errors import Unauthorized
from sidecar.scan.exceptions import RuleExceptions
from sidecar.storage import Store
from sidecar.types import Segment

_DAY = timedelta(days=1)
PATIENCE = 4.0
"""Less than a key is believed for, so that waiting alone would not do."""


async def until(true: Callable[[], bool], patience: float = PATIENCE) -> float:
    """Seconds until the condition holds."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < patience
        await asyncio.sleep(0.01)
    return time.monotonic() - began


@pytest.fixture
def url(postgres: servers.PostgreSql) -> str:
    """An empty database."""
    return postgres.new_database()


async def test_a_revocation_reaches_another_replica_at_once(url: str) -> None:
    """The notification arrives before the cache of the other replica expires."""
    first, second = await Store.open(url), await Store.open(url)
    ours, theirs = KeyRing(first, Auth()), KeyRing(second, Auth())
    await second.notices.start()
    heard: list[str] = []
    second.notices.subscribe("keys", heard.append)
    await until(lambda: bool(heard))
    key, value = await ours.create("shared")
    await theirs.authenticate(value)
    await ours.revoke(key.id)
    assert await until(lambda: key.id in heard) < PATIENCE
    with pytest.raises(Unauthorized):
        await theirs.authenticate(value)
    await second.notices.close()
    for store in (first, second):
        await store.close()


async def test_an_exception_reaches_another_replica_at_once(url: str) -> None:
    """As soon as it is created, and until it is revoked."""
    first, second = await Store.open(url), await Store.open(url)
    ours, theirs = RuleExceptions(first), RuleExceptions(second)
    await second.notices.start()
    for ring in (ours, theirs):
        await ring.start()
    await ours.add("T-1", ours.digest("text"), lasts=_DAY, reason="r", author="anna")
    await until(lambda: theirs.rules_for([Segment("text")], ()) == (frozenset({"T-1"}),))
    for ring in (ours, theirs):
        await ring.close()
    await second.notices.close()
    for store in (first, second):
        await store.close()


async def test_after_a_reconnection_caches_are_dropped(url: str, postgres: servers.PostgreSql) -> None:
    """Notifications in between are lost, so no cached value is trusted."""
    store = await Store.open(url)
    heard: list[str] = []
    store.notices.subscribe("keys", heard.append)
    await store.notices.start()
    await until(lambda: heard == [""])
    postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'")
    await until(lambda: heard == ["", ""])
    await store.notices.close()
    await store.close()


async def test_a_database_that_is_away_is_reported_once_and_tried_less_and_less(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The pauses double and the log has one line; listening begins again once the database is back."""
    with servers.postgresql() as away:
        store = await Store.open(away.new_database())
        away.stop()
        await store.notices.start()
        await until(lambda: store.notices._pause >= 4, 90)
        away.start()
        heard: list[str] = []
        store.notices.subscribe("keys", heard.append)
        await until(lambda: bool(heard), 90)
        await store.notices.close()
        await store.close()
    output = capsys.readouterr()
    assert (output.out + output.err).count("notices_unheard") == 1
    assert (output.out + output.err).count("notices_heard_again") == 1


async def test_without_notifications_caches_expire(tmp_path: Path) -> None:
    """SQLite has no notifications, and publishing does not fail."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    heard: list[str] = []
    store.notices.subscribe("keys", heard.append)
    await store.notices.start()
    await store.notices.publish("keys", "k1")
    await store.notices.close()
    await store.close()
    assert heard == []
