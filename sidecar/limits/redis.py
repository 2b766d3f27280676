"""The rate limit of all workers and replicas together, in Redis, on Redis' clock.

A request that gets no answer in time is limited by this process alone, which is counted. Redis counts as
gone when nobody has had an answer for that long, not when one was late: else a burst of load would be
enough to multiply the limit; who was late asks again. While it is gone one request every second asks whether it
is back.
"""

from __future__ import annotations

import asyncio
import time

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sidecar.errors import ConfigError
from sidecar.limits.rate import Limiter
from sidecar.observability.metrics import LIMITS_LOCAL
from sidecar.util import logs
from sidecar.util.units import Rate

TIMEOUT = 1.0
PAUSE = 1.0
ATTEMPTS = 3
CONNECTIONS = 8
_log = logs.get("limits")

# KEYS[1]: when the earnings of the key are used up, on Redis' clock, in microseconds.
# ARGV: the interval between two requests, how far ahead of it a key may be, in microseconds; 1 to count, 0 to look.
_GCRA = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local interval, ahead = tonumber(ARGV[1]), tonumber(ARGV[2])
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + interval
local wait = due - now - ahead
if wait > 0 then return math.ceil(wait) end
if ARGV[3] == '0' then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', due), 'PX', math.ceil((due - now) / 1000))
return 0
"""


class RedisLimiter:
    """The shared limit; `local` stands in while Redis does not answer."""

    def __init__(self, url: str, local: Limiter, timeout: float = TIMEOUT) -> None:
        self._client = Redis.from_pool(_pool(url, timeout))
        self._script = self._client.register_script(_GCRA)
        self._local = local
        self._timeout = timeout
        self._gone = False
        self._answered_at = -timeout
        self._probe_at = 0.0

    async def take(self, key: str, rate: Rate, burst: int) -> float:
        """See `Limiter`. Waits for Redis for at most `timeout` seconds."""
        wait = await self._shared(key, rate, burst, count=1)
        if wait is not None:
            return wait
        LIMITS_LOCAL.inc()
        return await self._local.take(key, rate, burst)

    async def wait(self, key: str, rate: Rate, burst: int) -> float:
        """See `Limiter`. Waits for Redis for at most `timeout` seconds."""
        wait = await self._shared(key, rate, burst, count=0)
        return await self._local.wait(key, rate, burst) if wait is None else wait

    async def _shared(self, key: str, rate: Rate, burst: int, *, count: int) -> float | None:
        """What Redis says; None while it does not answer.

        Who is late while Redis answers others (a loaded process) asks again: what Redis has counted by then is lost to
        the key, so that load makes a limit narrower and never wider.
        """
        for _ in range(ATTEMPTS):
            if self._gone and not self._probes():
                return None
            try:
                return await self._ask(key, rate, burst, count)
            except (RedisError, OSError) as error:
                self._miss(error)
        return None

    async def _ask(self, key: str, rate: Rate, burst: int, count: int) -> float:
        interval = rate.period / rate.requests * 1e6
        async with asyncio.timeout(self._timeout):
            wait = await self._script([f"sidecar:rate:{key}"], [interval, interval * burst, count])
        self._answered_at = time.monotonic()
        if self._gone:
            self._gone = False
            _log.info("redis_back")
        return int(wait) / 1e6

    def _probes(self) -> bool:
        """Whether this is the one request that asks again."""
        now = time.monotonic()
        if now < self._probe_at:
            return False
        self._probe_at = now + self._timeout + PAUSE
        return True

    def _miss(self, error: Exception) -> None:
        if not self._gone and time.monotonic() - self._answered_at >= self._timeout:
            _log.warning("redis_gone", kind=type(error).__name__)
            self._gone = True
            self._probe_at = time.monotonic() + PAUSE

    async def close(self) -> None:
        """Close the connections to Redis."""
        await self._client.aclose()


def _pool(url: str, timeout: float) -> BlockingConnectionPool:
    """One retry at once: it finds a connection that Redis has closed in the meantime."""
    try:
        return BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1),
        )
    except ValueError:
        raise ConfigError("limits.url", ["not a URL of Redis; write it like redis://HOST:6379/0"]) from None
