"""Tests of the rate limit, run against memory and Redis alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import servers

from sidecar import limits
from sidecar.errors import ConfigError
from sidecar.limits import Limiter, MemoryLimiter
from sidecar.util.units import Rate

SLOW = Rate(6, 3600.0)  # one in ten minutes: no test runs long enough to earn one


@pytest.fixture(params=["memory", "redis"])
async def limiter(request: pytest.FixtureRequest) -> AsyncIterator[Limiter]:
    """A limiter of each kind."""
    url = "memory://" if request.param == "memory" else request.getfixturevalue("redis").url
    opened = await limits.open(url)
    yield opened
    await opened.close()


async def admitted(limiter: Limiter, key: str, rate: Rate, burst: int, count: int) -> list[bool]:
    """Which of `count` requests are admitted."""
    return [await limiter.take(key, rate, burst) == 0.0 for _ in range(count)]


async def test_a_burst_passes_and_then_nothing(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """Exactly `burst` requests at once; the next one is told to wait one interval."""
    key = request.node.name
    assert await admitted(limiter, key, SLOW, 5, 8) == [True] * 5 + [False] * 3
    assert 590 < await limiter.take(key, SLOW, 5) <= 600


async def test_a_request_may_cost_more_than_one(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """What one request costs is taken from the burst; more than is left waits for the rest, and costs nothing."""
    key = request.node.name
    assert await limiter.take(key, SLOW, 100, 60) == 0.0
    assert 20 * 600 - 10 < await limiter.take(key, SLOW, 100, 60) <= 20 * 600
    assert await limiter.take(key, SLOW, 100, 40) == 0.0
    assert 590 < await limiter.take(key, SLOW, 100) <= 600


async def test_keys_do_not_share(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """Requests of one key do not count for another, whatever the names."""
    name = request.node.name
    for key in (name, f"{name} é\r\n\x00", f"{name}:*"):
        assert await admitted(limiter, key, SLOW, 1, 2) == [True, False]


async def test_waiting_the_returned_time_is_enough(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """After the returned number of seconds the next request is admitted."""
    key, rate = request.node.name, Rate(2, 1.0)
    assert await limiter.take(key, rate, 1) == 0.0
    wait = await limiter.take(key, rate, 1)
    assert 0 < wait <= 0.5
    await asyncio.sleep(wait + 0.001)
    assert await limiter.take(key, rate, 1) == 0.0


async def test_rejected_requests_are_not_counted(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """Repeated requests do not increase the wait."""
    key, rate = request.node.name, SLOW
    await limiter.take(key, rate, 1)
    waits = [await limiter.take(key, rate, 1) for _ in range(50)]
    assert waits[-1] <= waits[0] <= 600


async def test_peeking_does_not_count(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """The whole burst is available after any number of peeks; then a peek returns the time to wait."""
    key = request.node.name
    assert {await limiter.peek(key, SLOW, 2) for _ in range(9)} == {0.0}
    assert await admitted(limiter, key, SLOW, 2, 2) == [True, True]
    waits = [await limiter.peek(key, SLOW, 2) for _ in range(3)]
    assert all(590 < wait <= 600 for wait in waits)


async def test_concurrent_requests_do_not_exceed_the_burst(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """Two hundred requests at the same moment."""
    waits = await asyncio.gather(*(limiter.take(request.node.name, SLOW, 20) for _ in range(200)))
    assert sum(wait == 0.0 for wait in waits) == 20


async def test_memory_is_bounded_by_evicting_the_least_recently_used() -> None:
    """A flood of new keys does not evict the key that is being limited."""
    limiter = MemoryLimiter(size=10)
    await limiter.take("busy", SLOW, 2)
    for number in range(100):
        await limiter.take(str(number), SLOW, 1)
        await limiter.take("busy", SLOW, 2)
    assert len(limiter._tat) == 10
    assert await limiter.take("busy", SLOW, 2) > 0
    assert await limiter.take("99", SLOW, 1) > 0


@pytest.mark.parametrize("url", ["", "memory", "http://h", "redis://h:port", "memory://x"])
async def test_unsupported_urls_are_configuration_errors(url: str) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match=r"limits\.url"):
        await limits.open(url)


async def test_an_invalid_url_is_not_quoted(redis: servers.RedisServer) -> None:
    """It may hold a password."""
    with pytest.raises(ConfigError) as caught:
        await limits.open(redis.url.replace(str(redis.port), "canary-port"))
    assert "canary" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)
