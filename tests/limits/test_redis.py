"""Tests of the limit in Redis, and of the local limit while Redis is down."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time

import pytest
import servers
from support import together

from sidecar import limits
from sidecar.limits import MemoryLimiter
from sidecar.limits.redis import RedisLimiter
from sidecar.observability.metrics import LIMITS_LOCAL
from sidecar.util.units import Rate

SLOW = Rate(6, 3600.0)
TAKE = """
import asyncio, sys
from sidecar.limits import MemoryLimiter
from sidecar.limits.redis import RedisLimiter
from sidecar.util.units import Rate

async def main():
    limiter = RedisLimiter(sys.argv[1], MemoryLimiter(), timeout=30.0)
    print("ready", flush=True)
    sys.stdin.read()
    waits = await asyncio.gather(*(limiter.take("shared", Rate(6, 3600.0), 100) for _ in range(100)))
    print(sum(wait == 0.0 for wait in waits))
    await limiter.close()

asyncio.run(main())
"""
"""With a long timeout, so that a busy machine does not fail the test; timeouts are tested below."""


def local_count() -> float:
    """Requests limited locally so far."""
    return LIMITS_LOCAL._value.get()


def test_processes_share_one_limit(redis: servers.RedisServer) -> None:
    """Four processes send a hundred requests each at once: exactly a hundred are admitted."""
    command = [sys.executable, "-c", TAKE, redis.url]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    admitted = [int(output) for output, _ in together(started)]
    assert sum(admitted) == 100


async def until_state(limiter: RedisLimiter, *, down: bool) -> None:
    """Send requests until the limiter considers Redis down, or up."""
    for number in range(500):
        if limiter._down is down:
            return
        await limiter.take(f"other {number}", SLOW, 1)
        await asyncio.sleep(0.02)
    pytest.fail("the state did not change")


async def test_without_redis_each_process_limits_locally(capfd: pytest.CaptureFixture[str]) -> None:
    """While Redis is stopped requests are limited locally and counted, with one log line; afterwards by Redis again."""
    with servers.redis() as server:
        limiter = RedisLimiter(server.url, MemoryLimiter(), timeout=0.3)
        assert await limiter.take("a", SLOW, 3) == 0.0
        server.stop()
        local_before = local_count()
        waits = [await limiter.take("a", SLOW, 3) for _ in range(5)]
        assert [wait == 0.0 for wait in waits] == [True] * 3 + [False] * 2
        assert local_count() - local_before == 5
        await until_state(limiter, down=True)
        await asyncio.to_thread(server.start)
        await until_state(limiter, down=False)
        local_before = local_count()
        assert await limiter.take("a", SLOW, 3) == 0.0
        assert local_count() == local_before
        await limiter.close()
    printed = "".join(capfd.readouterr())
    assert printed.count("redis_gone") == printed.count("redis_back") == 1


async def test_a_hanging_redis_delays_only_probes() -> None:
    """A stopped process and a silent port: the first requests wait, later ones do not, except for one probe."""
    with servers.redis() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        hanging = RedisLimiter(server.url, MemoryLimiter(), timeout=0.3)
        await hanging.take("a", SLOW, 100)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        mute = RedisLimiter(f"redis://127.0.0.1:{silent.getsockname()[1]}", MemoryLimiter(), timeout=0.3)
        for limiter in (hanging, mute):
            local_before = local_count()
            waits = await asyncio.gather(*(limiter.take("a", SLOW, 100) for _ in range(40)))
            assert limiter._down
            assert waits == [0.0] * 40
            limiter._probe_at = 0.0
            started = time.monotonic()
            probe, *later = [asyncio.ensure_future(limiter.take("a", SLOW, 100)) for _ in range(40)]
            await asyncio.gather(*later)
            assert not probe.done() or time.monotonic() - started > 0.15
            assert await probe == 0.0
            assert local_count() - local_before == 80
            await limiter.close()
        server.process.send_signal(signal.SIGCONT)


async def test_an_unreachable_redis_at_startup_is_no_error() -> None:
    """The limiter opens and limits locally."""
    limiter = await limits.open("redis://127.0.0.1:1/0")
    assert await limiter.take("a", SLOW, 1) == 0.0
    assert await limiter.take("a", SLOW, 1) > 0
    await limiter.close()


async def test_unused_keys_expire_in_redis(redis: servers.RedisServer) -> None:
    """The state of a key expires once it has no effect."""
    limiter = RedisLimiter(redis.url, MemoryLimiter())
    await limiter.take("short", Rate(1, 10.0), 5)
    assert 0 < await limiter._client.pttl("sidecar:rate:short") <= 10_001
    await limiter.close()


async def test_a_probe_finds_a_stopped_redis_without_a_request() -> None:
    """And its return."""
    with servers.redis() as server:
        limiter = RedisLimiter(server.url, MemoryLimiter(), timeout=0.3)
        await limiter.probe()
        assert limiter.problem is None
        server.stop()
        deadline = time.monotonic() + 60
        while limiter.problem is None and time.monotonic() < deadline:
            await limiter.probe()
            await asyncio.sleep(0.05)
        assert limiter.problem == "Redis of the limits does not answer, each process limits by itself"
        await asyncio.to_thread(server.start)
        while limiter.problem is not None and time.monotonic() < deadline:
            await limiter.probe()
        assert limiter.problem is None
        await limiter.close()
