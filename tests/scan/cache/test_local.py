"""Twin of sidecar/scan/cache/local.py, and what both memories promise alike: in this process and in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import servers

from sidecar.config import Cache
from sidecar.errors import ConfigError
from sidecar.scan import cache
from sidecar.scan.cache import REPORTS, Verdicts
from sidecar.scan.cache.local import LocalMemory
from sidecar.scan.cache.redis import RedisMemory
from sidecar.types import Finding, Label, LayerName, SegmentReport

SECRET = bytes(range(32))
FOUND = SegmentReport(0.8, (Finding("T-1", Label.JAILBREAK, 0.8, LayerName.RULES, "", 3, 9, "base64", decides=False),))
CALM = SegmentReport(0.01)


@pytest.fixture(params=["memory", "redis"])
async def memory(request: pytest.FixtureRequest) -> AsyncIterator[Verdicts]:
    """An empty memory of each kind."""
    url = "memory://"
    if request.param == "redis":
        running: servers.RedisServer = request.getfixturevalue("redis")
        url = running.url
    opened = await cache.open(Cache(url=url), SECRET, REPORTS)
    if isinstance(opened, RedisMemory):
        await opened._client.flushdb()
    yield opened
    await opened.close()


async def test_what_was_put_is_known_and_nothing_else(memory: Verdicts) -> None:
    """Reports come back as they were, under their own keys alone."""
    await memory.put({b"one": FOUND, b"two": CALM})
    assert await memory.get([b"one", b"two", b"three"]) == {b"one": FOUND, b"two": CALM}
    assert await memory.get([]) == {}


async def test_the_last_report_stands(memory: Verdicts) -> None:
    """Putting again replaces."""
    await memory.put({b"one": FOUND})
    await memory.put({b"one": CALM})
    assert await memory.get([b"one"]) == {b"one": CALM}


async def test_the_one_unused_for_longest_makes_room() -> None:
    """Never more entries than allowed; being asked for is being used."""
    memory = LocalMemory(2, 1_000_000, 60, REPORTS)
    await memory.put({b"one": CALM, b"two": CALM})
    await memory.get([b"one"])
    await memory.put({b"three": CALM})
    assert set(await memory.get([b"one", b"two", b"three"])) == {b"one", b"three"}


async def test_the_bytes_are_bounded_and_counted_back() -> None:
    """Reports with many findings are fewer; what has gone counts no more."""
    many = SegmentReport(0.9, FOUND.findings * 100)
    memory = LocalMemory(1000, 100_000, 60, REPORTS)
    await memory.put({bytes([number]): many for number in range(10)})
    assert len(memory) == 3
    assert memory.size <= 100_000
    await memory.put({bytes([number]): CALM for number in range(10)})
    assert (len(memory), memory.size < 10_000) == (10, True)


async def test_a_report_is_forgotten_after_its_time() -> None:
    """Past its time it is as if it had never been."""
    memory = LocalMemory(10, 10_000, 0.01, REPORTS)
    await memory.put({b"one": CALM})
    await asyncio.sleep(0.02)
    assert (await memory.get([b"one"]), len(memory)) == ({}, 0)


@pytest.mark.parametrize("url", ["http://example", "redis://:port", "mem://"])
async def test_a_wrong_url_is_named(url: str) -> None:
    """The operator reads which setting it is."""
    with pytest.raises(ConfigError, match=r"cache\.url"):
        await cache.open(Cache(url=url), SECRET, REPORTS)
