"""Twin of sidecar/storage/last_start.py, on each database."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from sidecar.storage import Store

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def test_each_start_gets_the_settings_of_the_one_before(store: Store) -> None:
    """The first one gets none."""
    starts = [{"mode": ["monitor", "monitor"]}, {}, {"mode": ["enforce", "enforce"]}]
    earlier = [await store.last_start.exchange(settings, NOW) for settings in starts]
    assert earlier == [None, *starts[:2]]


async def test_of_starts_at_once_one_gets_the_earlier_settings(store: Store) -> None:
    """So that a change is one entry, however many workers and replicas start with it."""
    await store.last_start.exchange({"mode": "old"}, NOW)
    earlier = await asyncio.gather(*(store.last_start.exchange({"mode": "new"}, NOW) for _ in range(5)))
    assert sorted(str(settings) for settings in earlier) == ["{'mode': 'new'}"] * 4 + ["{'mode': 'old'}"]


async def test_of_first_starts_at_once_one_is_first(store: Store) -> None:
    """The others find its settings."""
    earlier = await asyncio.gather(*(store.last_start.exchange({"mode": "new"}, NOW) for _ in range(4)))
    assert sum(settings is None for settings in earlier) == 1
