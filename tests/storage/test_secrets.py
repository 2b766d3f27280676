"""Tests of shared secrets on each database: common to all replicas, rotated, deleted when unused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from sidecar.storage import Store

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


async def test_replicas_agree_on_the_first_secret(store_url: str) -> None:
    """Two stores that request it at the same moment get the same 256 bits."""
    stores = [await Store.open(store_url), await Store.open(store_url)]
    secret = await asyncio.gather(*(stores[n % 2].secrets.current("log", NOW, DAY) for n in range(8)))
    assert len({secret.value for secret in secret}) == 1
    assert len(secret[0].value) == 32
    for store in stores:
        await store.close()


async def test_an_old_secret_is_replaced(store: Store) -> None:
    """The next generation has other bits; secrets of different names are independent."""
    first = await store.secrets.current("log", NOW, DAY)
    assert await store.secrets.current("log", NOW + DAY / 2, DAY) == first
    second = await store.secrets.current("log", NOW + DAY, DAY)
    assert (first.generation, second.generation) == (1, 2)
    assert second.value != first.value
    assert (await store.secrets.current("other", NOW, DAY)).value not in {first.value, second.value}


async def test_purged_generations_do_not_come_back(store: Store) -> None:
    """Old generations are deleted; a number is not reused while a newer one exists."""
    await store.secrets.current("log", NOW, DAY)
    second = await store.secrets.current("log", NOW + DAY, DAY)
    await store.secrets.purge("log", NOW + DAY)
    assert await store.secrets.current("log", NOW + DAY, DAY) == second
