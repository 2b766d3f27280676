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
"""With patience: what a busy machine makes of the deadline is tested below."""


def counted() -> float:
    """Requests limited locally so far."""
    return LIMITS_LOCAL._value.get()


def test_processes_share_one_limit(redis: servers.RedisServer) -> None:
    """Four processes ask a hundred times each at once: together a hundred pass, not one more."""
    command = [sys.executable, "-c", TAKE, redis.url]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    passed = [int(output) for output, _ in together(started)]
    assert sum(passed) == 100


async def until(limiter: RedisLimiter, *, gone: bool) -> None:
    """Keep asking until the limiter knows."""
    for number in range(500):
        if limiter._gone is gone:
            return
        await limiter.take(f"other {number}", SLOW, 1)
        await asyncio.sleep(0.02)
    pytest.fail("it never noticed")


async def test_without_redis_each_process_limits_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    """Redis stops: requests are limited locally, counted, told once in the log; it comes back: it is asked again."""
    with servers.redis() as server:
        limiter = RedisLimiter(server.url, MemoryLimiter(), timeout=0.3)
        assert await limiter.take("a", SLOW, 3) == 0.0
        server.stop()
        before = counted()
        waits = [await limiter.take("a", SLOW, 3) for _ in range(5)]
        assert [wait == 0.0 for wait in waits] == [True] * 3 + [False] * 2
        assert counted() - before == 5
        await until(limiter, gone=True)
        await asyncio.to_thread(server.start)
        await until(limiter, gone=False)
        before = counted()
        assert await limiter.take("a", SLOW, 3) == 0.0
        assert counted() == before
        await limiter.close()
    printed = "".join(capfd.readouterr())
    assert printed.count("redis_gone") == printed.count("redis_back") == 1


async def test_a_redis_that_does_not_answer_holds_up_one_request_at_a_time() -> None:
    """A stopped process and a silent port: the first requests wait, later ones do not, but for one probe."""
    with servers.redis() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        hanging = RedisLimiter(server.url, MemoryLimiter(), timeout=0.3)
        await hanging.take("a", SLOW, 100)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        mute = RedisLimiter(f"redis://127.0.0.1:{silent.getsockname()[1]}", MemoryLimiter(), timeout=0.3)
        for limiter in (hanging, mute):
            before = counted()
            waits = await asyncio.gather(*(limiter.take("a", SLOW, 100) for _ in range(40)))
            assert limiter._gone
            assert waits == [0.0] * 40
            limiter._probe_at = 0.0
            started = time.monotonic()
            probe, *others = [asyncio.ensure_future(limiter.take("a", SLOW, 100)) for _ in range(40)]
            await asyncio.gather(*others)
            assert not probe.done() or time.monotonic() - started > 0.15
            assert await probe == 0.0
            assert counted() - before == 80
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
    limiter = RedisLimiter(redis.url, MemoryLimiter())
    await limiter.take("short", Rate(1, 10.0), 5)
    assert 0 < await limiter._client.pttl("sidecar:rate:short") <= 10_001
    await limiter.close()
