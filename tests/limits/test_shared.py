"""The limit in Redis: one for all processes, and a local one while Redis is gone."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time

import pytest
import servers

from sidecar import limits
from sidecar.metrics import LIMITS_LOCAL
from sidecar.units import Rate

SLOW = Rate(6, 3600.0)
TAKE = """
import asyncio, sys
from sidecar import limits
from sidecar.units import Rate

async def main():
    limiter = await limits.open(sys.argv[1])
    waits = await asyncio.gather(*(limiter.take("shared", Rate(6, 3600.0), 100) for _ in range(100)))
    print(sum(wait == 0.0 for wait in waits))
    await limiter.close()

asyncio.run(main())
"""


def counted() -> float:
    """Requests limited locally so far."""
    return LIMITS_LOCAL._value.get()


def test_processes_share_one_limit(redis: servers.RedisServer) -> None:
    """Four processes ask a hundred times each at once: together a hundred pass, not one more."""
    started = [subprocess.Popen([sys.executable, "-c", TAKE, redis.url], stdout=subprocess.PIPE) for _ in range(4)]
    passed = [int(process.communicate(timeout=60)[0]) for process in started]
    assert sum(passed) == 100


async def test_without_redis_each_process_limits_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    """Redis stops: requests are limited locally, counted, told once in the log; it comes back: it is asked again."""
    with servers.redis() as server:
        limiter = await limits.open(server.url)
        assert await limiter.take("a", SLOW, 3) == 0.0
        server.stop()
        before = counted()
        waits = [await limiter.take("a", SLOW, 3) for _ in range(5)]
        assert [wait == 0.0 for wait in waits] == [True] * 3 + [False] * 2
        assert counted() - before == 5
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(10):
            while await limiter.take("b", SLOW, 1000) or counted() != before:
                before = counted()
                await asyncio.sleep(0.1)
        await limiter.close()
    printed = "".join(capfd.readouterr())
    assert printed.count("redis_gone") == printed.count("redis_back") == 1


async def test_a_redis_that_does_not_answer_costs_a_moment_once_a_second() -> None:
    """A stopped process and a port that is silent: the first request waits briefly, the others not at all."""
    with servers.redis() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        hanging = await limits.open(server.url)
        await hanging.take("a", SLOW, 100)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        mute = await limits.open(f"redis://127.0.0.1:{silent.getsockname()[1]}")
        for limiter in (hanging, mute):
            before, started = counted(), time.monotonic()
            waits = [await limiter.take("a", SLOW, 50) for _ in range(40)]
            assert time.monotonic() - started < 5
            assert waits == [0.0] * 40
            assert counted() - before == 40
            await limiter.close()
        server.process.send_signal(signal.SIGCONT)


async def test_a_redis_that_is_not_there_at_the_start_is_no_error() -> None:
    """The limiter opens, and limits."""
    limiter = await limits.open("redis://127.0.0.1:1/0")
    assert await limiter.take("a", SLOW, 1) == 0.0
    assert await limiter.take("a", SLOW, 1) > 0
    await limiter.close()


async def test_redis_forgets_keys_that_are_not_used(redis: servers.RedisServer) -> None:
    """The state of a key lives only as long as it means something."""
    limiter = await limits.open(redis.url)
    await limiter.take("short", Rate(1, 10.0), 5)
    assert 0 < await limiter._client.pttl("sidecar:rate:short") <= 10_001
    await limiter.close()
