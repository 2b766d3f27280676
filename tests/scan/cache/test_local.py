"""Tests of the cache of this process, and of what both caches have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import servers

from sidecar.config import Cache
from sidecar.errors import ConfigError
from sidecar.scan import cache as scan_cache
from sidecar.scan.cache import REPORT_CODEC, ReportCache
from sidecar.scan.cache.local import LocalCache
from sidecar.scan.cache.redis import RedisCache
from sidecar.types import Finding, Label, LayerName, SegmentReport

SECRET = bytes(range(32))
FOUND = SegmentReport(0.8, (Finding("T-1", Label.JAILBREAK, 0.8, LayerName.RULES, "", 3, 9, "base64", decides=False),))
CALM = SegmentReport(0.01, suspicious=((0, 40, 0.02),))


@pytest.fixture(params=["memory", "redis"])
async def cache(request: pytest.FixtureRequest) -> AsyncIterator[ReportCache]:
    """An empty cache of each kind."""
    url = "memory://"
    if request.param == "redis":
        running: servers.RedisServer = request.getfixturevalue("redis")
        url = running.url
    opened = await scan_cache.open(Cache(url=url), SECRET, REPORT_CODEC)
    if isinstance(opened, RedisCache):
        await opened._client.flushdb()
    yield opened
    await opened.close()


async def test_stored_reports_are_returned(cache: ReportCache) -> None:
    """Unchanged, and only under their own keys."""
    await cache.put({b"one": FOUND, b"two": CALM})
    assert await cache.get([b"one", b"two", b"three"]) == {b"one": FOUND, b"two": CALM}
    assert await cache.get([]) == {}


async def test_the_last_report_wins(cache: ReportCache) -> None:
    """Storing again replaces."""
    await cache.put({b"one": FOUND})
    await cache.put({b"one": CALM})
    assert await cache.get([b"one"]) == {b"one": CALM}


async def test_the_least_recently_used_entry_is_evicted() -> None:
    """The number of entries is bounded; a lookup counts as a use."""
    cache = LocalCache(2, 1_000_000, 60, REPORT_CODEC)
    await cache.put({b"one": CALM, b"two": CALM})
    await cache.get([b"one"])
    await cache.put({b"three": CALM})
    assert set(await cache.get([b"one", b"two", b"three"])) == {b"one", b"three"}


async def test_the_size_is_bounded() -> None:
    """Fewer reports fit if they have many findings; evicted ones no longer count."""
    entries = SegmentReport(0.9, FOUND.findings * 100)
    cache = LocalCache(1000, 100_000, 60, REPORT_CODEC)
    await cache.put({bytes([number]): entries for number in range(10)})
    assert len(cache) == 3
    assert cache.size <= 100_000
    await cache.put({bytes([number]): CALM for number in range(10)})
    assert (len(cache), cache.size < 10_000) == (10, True)


async def test_a_report_expires() -> None:
    """An expired report is a miss and is removed."""
    cache = LocalCache(10, 10_000, 0.01, REPORT_CODEC)
    await cache.put({b"one": CALM})
    await asyncio.sleep(0.02)
    assert (await cache.get([b"one"]), len(cache)) == ({}, 0)


@pytest.mark.parametrize("url", ["http://example", "redis://:port", "mem://"])
async def test_an_invalid_url_is_a_configuration_error(url: str) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match=r"cache\.url"):
        await scan_cache.open(Cache(url=url), SECRET, REPORT_CODEC)
