"""The rate limit: what every limiter promises, asked of memory and of Redis alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import servers

from sidecar import limits
from sidecar.errors import ConfigError
from sidecar.limits import Limiter, MemoryLimiter
from sidecar.util.units import Rate

SLOW = Rate(6, 3600.0)  # one in ten minutes: no test lasts long enough to earn one


@pytest.fixture(params=["memory", "redis"])
async def limiter(request: pytest.FixtureRequest) -> AsyncIterator[Limiter]:
    """A limiter of each kind."""
    url = "memory://" if request.param == "memory" else request.getfixturevalue("redis").url
    made = await limits.open(url)
    yield made
    await made.close()


async def takes(limiter: Limiter, key: str, rate: Rate, burst: int, times: int) -> list[bool]:
    """Which of so many requests are let through."""
    return [await limiter.take(key, rate, burst) == 0.0 for _ in range(times)]


async def test_a_burst_passes_and_then_nothing(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """Exactly `burst` requests at once; the next one is told to wait for one interval."""
    key = request.node.name
    assert await takes(limiter, key, SLOW, 5, 8) == [True] * 5 + [False] * 3
    assert 590 < await limiter.take(key, SLOW, 5) <= 600


async def test_keys_do_not_share(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """What one key spends costs another nothing, whatever they are called."""
    name = request.node.name
    for key in (name, f"{name} é\r\n\x00", f"{name}:*"):
        assert await takes(limiter, key, SLOW, 1, 2) == [True, False]


async def test_waiting_as_told_is_enough(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """After the seconds that were named the next request passes."""
    key, rate = request.node.name, Rate(2, 1.0)
    assert await limiter.take(key, rate, 1) == 0.0
    wait = await limiter.take(key, rate, 1)
    assert 0 < wait <= 0.5
    await asyncio.sleep(wait + 0.001)
    assert await limiter.take(key, rate, 1) == 0.0


async def test_refused_requests_cost_nothing(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """Asking again and again does not push the next free moment away."""
    key, rate = request.node.name, SLOW
    await limiter.take(key, rate, 1)
    waits = [await limiter.take(key, rate, 1) for _ in range(50)]
    assert waits[-1] <= waits[0] <= 600


async def test_looking_counts_nothing(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """However often somebody looks, all of the burst is there; afterwards a look says how long to wait."""
    key = request.node.name
    assert {await limiter.wait(key, SLOW, 2) for _ in range(9)} == {0.0}
    assert await takes(limiter, key, SLOW, 2, 2) == [True, True]
    waits = [await limiter.wait(key, SLOW, 2) for _ in range(3)]
    assert all(590 < wait <= 600 for wait in waits)


async def test_of_many_at_once_no_more_than_the_burst_pass(limiter: Limiter, request: pytest.FixtureRequest) -> None:
    """Two hundred requests at the same moment."""
    waits = await asyncio.gather(*(limiter.take(request.node.name, SLOW, 20) for _ in range(200)))
    assert sum(wait == 0.0 for wait in waits) == 20


async def test_memory_is_bounded_and_forgets_the_longest_unused() -> None:
    """A flood of new keys does not free the key that is being limited right now."""
    limiter = MemoryLimiter(size=10)
    await limiter.take("busy", SLOW, 2)
    for number in range(100):
        await limiter.take(str(number), SLOW, 1)
        await limiter.take("busy", SLOW, 2)
    assert len(limiter._due) == 10
    assert await limiter.take("busy", SLOW, 2) > 0
    assert await limiter.take("99", SLOW, 1) > 0


@pytest.mark.parametrize("url", ["", "memory", "http://h", "redis://h:port", "memory://x"])
async def test_other_urls_are_configuration_errors(url: str) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match=r"limits\.url"):
        await limits.open(url)


async def test_a_broken_url_is_not_repeated(redis: servers.RedisServer) -> None:
    """It may hold a password."""
    with pytest.raises(ConfigError) as caught:
        await limits.open(redis.url.replace(str(redis.port), "canary-port"))
    assert "canary" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)
