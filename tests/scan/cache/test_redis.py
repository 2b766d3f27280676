"""Twin of sidecar/scan/cache/redis.py: between replicas, against forgery, and with Redis gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import servers
from support import free_port

from sidecar.scan.cache.local import REPORTS, LocalMemory
from sidecar.scan.cache.redis import PREFIX, RedisMemory
from sidecar.types import Finding, Label, LayerName, SegmentReport

SECRET = bytes(range(32))
ATTACK = SegmentReport(0.9, (Finding("T-1", Label.PROMPT_INJECTION, 0.9, LayerName.RULES, ""),))
CALM = SegmentReport(0.0)

Pair = tuple[RedisMemory[SegmentReport], RedisMemory[SegmentReport]]


def replica(url: str, secret: bytes = SECRET) -> RedisMemory[SegmentReport]:
    """A memory with nothing of its own yet."""
    return RedisMemory(url, LocalMemory(100, 100_000, 60, REPORTS), secret, 60, timeout=1.0)


@pytest.fixture
async def pair(
    redis: servers.RedisServer,
) -> AsyncIterator[Pair]:
    """Two replicas on one empty Redis."""
    made = replica(redis.url), replica(redis.url)
    await made[0]._client.flushdb()
    yield made
    for one in made:
        await one.close()


async def test_one_replica_knows_what_another_has_read(
    pair: Pair,
) -> None:
    """What one puts the other gets, and then has it in its own memory."""
    first, second = pair
    await first.put({b"key": ATTACK})
    assert await second.get([b"key"]) == {b"key": ATTACK}
    assert await second._local.get([b"key"]) == {b"key": ATTACK}


async def test_redis_cannot_acquit(pair: Pair) -> None:
    """A value that was made up, changed, cut or moved from another key is not believed."""
    first, second = pair
    await first.put({b"calm": CALM, b"attack": ATTACK})
    calm = await first._client.get(PREFIX + b"verdict:calm")
    attack = await first._client.get(PREFIX + b"verdict:attack")
    for value in (calm, b"", b"0" * 40, attack[:16] + calm[16:], attack[:-1]):
        await first._client.set(PREFIX + b"verdict:attack", value)
        assert await second.get([b"attack"]) == {}


async def test_another_secret_believes_nothing(redis: servers.RedisServer) -> None:
    """Fleets that share a Redis by mistake do not share verdicts."""
    first, other = replica(redis.url), replica(redis.url, b"another secret")
    await first.put({b"shared": CALM})
    assert await other.get([b"shared"]) == {}
    await first.close()
    await other.close()


async def test_without_redis_this_process_still_remembers_and_soon_stops_waiting() -> None:
    """The first request finds out; those after it do not wait for it."""
    alone = replica(f"redis://127.0.0.1:{free_port()}")
    await alone.put({b"key": ATTACK})
    began = time.monotonic()
    for _ in range(100):
        assert await alone.get([b"key", b"unknown"]) == {b"key": ATTACK}
    assert time.monotonic() - began < 1
    await alone.close()


async def test_a_redis_that_hangs_costs_its_time_once(unused_tcp_port: int) -> None:
    """A server that takes connections and says nothing is left alone after the first wait."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", unused_tcp_port)
    memory = RedisMemory(
        f"redis://127.0.0.1:{unused_tcp_port}", LocalMemory(9, 9999, 60, REPORTS), SECRET, 60, timeout=0.2
    )
    began = time.monotonic()
    for _ in range(20):
        assert await memory.get([b"key"]) == {}
    assert time.monotonic() - began < 2
    await memory.close()
    server.close()
    await server.wait_closed()
