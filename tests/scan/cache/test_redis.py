"""Tests of the shared cache: between replicas, against forgery, and without Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import servers
from support import free_port

from sidecar.scan.cache.local import REPORT_CODEC, LocalCache
from sidecar.scan.cache.redis import PREFIX, RedisCache
from sidecar.types import Finding, Label, LayerName, SegmentReport

SECRET = bytes(range(32))
ATTACK = SegmentReport(0.9, (Finding("T-1", Label.PROMPT_INJECTION, 0.9, LayerName.RULES, ""),))
CALM = SegmentReport(0.0)

Pair = tuple[RedisCache[SegmentReport], RedisCache[SegmentReport]]


def replica(url: str, secret: bytes = SECRET) -> RedisCache[SegmentReport]:
    """A cache with an empty local cache."""
    return RedisCache(url, LocalCache(100, 100_000, 60, REPORT_CODEC), secret, 60, timeout=1.0)


@pytest.fixture
async def pair(
    redis: servers.RedisServer,
) -> AsyncIterator[Pair]:
    """Two replicas on one empty Redis."""
    opened = replica(redis.url), replica(redis.url)
    await opened[0]._client.flushdb()
    yield opened
    for first in opened:
        await first.close()


async def test_replicas_share_reports(
    pair: Pair,
) -> None:
    """A report stored by one replica is found by another, which then holds it in its local cache."""
    first, second = pair
    await first.put({b"key": ATTACK})
    assert await second.get([b"key"]) == {b"key": ATTACK}
    assert await second._local.get([b"key"]) == {b"key": ATTACK}


async def test_forged_values_are_rejected(pair: Pair) -> None:
    """Values that were invented, modified, truncated or copied from another key are misses."""
    first, second = pair
    await first.put({b"calm": CALM, b"attack": ATTACK})
    calm = await first._client.get(PREFIX + b"report2:calm")
    attack = await first._client.get(PREFIX + b"report2:attack")
    for value in (calm, b"", b"0" * 40, attack[:16] + calm[16:], attack[:-1]):
        await first._client.set(PREFIX + b"report2:attack", value)
        assert await second.get([b"attack"]) == {}


async def test_another_secret_is_a_miss(redis: servers.RedisServer) -> None:
    """Fleets that share a Redis by mistake do not share reports."""
    first, second = replica(redis.url), replica(redis.url, b"another secret")
    await first.put({b"shared": CALM})
    assert await second.get([b"shared"]) == {}
    await first.close()
    await second.close()


async def test_without_redis_the_local_cache_is_used() -> None:
    """The first request detects the failure; later ones do not wait."""
    alone = replica(f"redis://127.0.0.1:{free_port()}")
    await alone.put({b"key": ATTACK})
    began = time.monotonic()
    for _ in range(100):
        assert await alone.get([b"key", b"unknown"]) == {b"key": ATTACK}
    assert time.monotonic() - began < 1
    await alone.close()


async def test_a_hanging_redis_costs_one_timeout(unused_tcp_port: int) -> None:
    """A server that accepts connections but does not reply is not called again after the first timeout."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", unused_tcp_port)
    cache = RedisCache(
        f"redis://127.0.0.1:{unused_tcp_port}", LocalCache(9, 9999, 60, REPORT_CODEC), SECRET, 60, timeout=0.2
    )
    began = time.monotonic()
    for _ in range(20):
        assert await cache.get([b"key"]) == {}
    assert time.monotonic() - began < 2
    await cache.close()
    server.close()
    await server.wait_closed()


async def test_a_probe_finds_a_stopped_redis_and_its_return() -> None:
    """One failure is no problem yet, two in a row are."""
    with servers.redis() as server:
        cache = replica(server.url)
        await cache.probe()
        assert cache.problem is None
        server.stop()
        await cache.probe()
        assert cache.problem is None
        cache._retry_at = 0.0
        await cache.probe()
        assert cache.problem == "Redis of the cache does not answer"
        await asyncio.to_thread(server.start)
        cache._retry_at = 0.0
        await cache.probe()
        assert cache.problem is None
        await cache.close()
