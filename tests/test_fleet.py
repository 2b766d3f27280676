"""Four processes on one PostgreSQL and one Redis: limits are exact, no row is lost, a revocation reaches all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import servers
from support import together

from sidecar import config, limits
from sidecar.auth.api_keys import KeyRing
from sidecar.decision_log import DecisionLog
from sidecar.errors import StoreError
from sidecar.limits.redis import RedisLimiter
from sidecar.observability.metrics import LIMITS_LOCAL
from sidecar.storage import Filter, Store
from sidecar.types import Action, Decision, LayerName, Verdict
from sidecar.util.units import Rate

REQUESTS = 250
KEYS = 10
ALLOWED = 60
RATE = Rate(1, 3600.0)


async def request(name: str, value: str, ring: KeyRing, limiter: limits.Limiter, decision_log: DecisionLog) -> bool:
    """What a door does with a request, the scan left out: key, rate, record."""
    key = await ring.authenticate(value)
    allowed = await limiter.take(key.id, RATE, ALLOWED) == 0.0
    if allowed:
        verdict = Verdict(0.1, Action.ALLOW, (), 1, LayerName.RULES)
        decision_log.record(Decision(name, datetime.now(UTC), "api", "/", verdict, "allow", 200, key_id=key.id))
    return allowed


async def warmed(store: Store) -> None:
    """Connections are made and statements compiled before the requests come, however long a busy machine takes."""
    while True:
        with suppress(StoreError):
            await asyncio.gather(*(store.keys.list() for _ in range(4)), *(store.keys.get("nobody") for _ in range(4)))
            return


async def replica(name: str, store_url: str, redis_url: str, values: list[str]) -> tuple[int, int]:
    """One process: so many requests at once over all keys; how many were allowed, and how many limited locally."""
    store = await Store.open(store_url)
    ring, limiter = KeyRing(store, config.Auth()), RedisLimiter(redis_url, limits.MemoryLimiter(), timeout=30.0)
    decision_log = DecisionLog(store, config.Store(), config.Log())
    await decision_log.start()
    await warmed(store)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    requests = (request(f"{name}-{n}", values[n % KEYS], ring, limiter, decision_log) for n in range(REQUESTS))
    allowed = sum(await asyncio.gather(*requests))
    for part in (decision_log, ring, limiter, store):
        await part.close()
    return allowed, int(LIMITS_LOCAL._value.get())


def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A replica in a process of its own."""
    code = "import asyncio, sys; sys.path.insert(0, sys.argv[1]); from test_fleet import replica\n"
    code += "print(*asyncio.run(replica(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])))"
    command = [sys.executable, "-c", code, str(Path(__file__).parent), name, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def test_a_thousand_requests_over_four_processes(
    postgres: servers.PostgreSql, redis: servers.RedisServer
) -> None:
    """Each of ten keys gets its burst once over all processes, and each allowed request is in the scan log."""
    url = postgres.new_database()
    store = await Store.open(url)
    ring = KeyRing(store, config.Auth())
    made = [await ring.create(f"key {n}") for n in range(KEYS)]
    started = [start(f"replica{n}", url, redis.url, *(value for _, value in made)) for n in range(4)]
    ended = await asyncio.to_thread(together, started, 90)
    assert [errors for _, errors in ended] == [b""] * 4
    counts = [output.split()[-2:] for output, _ in ended]
    allowed, alone = (sum(int(count[n]) for count in counts) for n in range(2))
    assert (allowed, alone) == (KEYS * ALLOWED, 0)
    assert await store.decisions.count() == allowed
    assert {await store.decisions.count(Filter(key_id=key.id)) for key, _ in made} == {ALLOWED}
    await store.close()
