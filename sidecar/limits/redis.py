"""The rate limit shared by all workers and replicas, in Redis, on the clock of Redis.

A request that gets no reply in time is limited by this process alone, and counted. Redis is considered down when no
request had a reply for `timeout` seconds, not when a single reply was late: otherwise a burst of load would be enough
to multiply the limit; late requests are retried. While Redis is down, one request a second probes it.
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
PROBE_INTERVAL = 1.0
ATTEMPTS = 3
MAX_CONNECTIONS = 8
_log = logs.get("limits")

# KEYS[1]: the theoretical arrival time (TAT) of the key, on the clock of Redis, in microseconds.
# ARGV: the time that the request pays for and how far the TAT may be ahead of now, in microseconds; 1: count, 0: peek.
_GCRA = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local interval, ahead = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + interval
local wait = tat - now - ahead
if wait > 0 then return math.ceil(wait) end
if ARGV[3] == '0' then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
return 0
"""


class RedisLimiter:
    """The shared limit; `local` is used while Redis does not reply."""

    def __init__(self, url: str, local: Limiter, timeout: float = TIMEOUT) -> None:
        self._client = Redis.from_pool(_pool(url, timeout))
        self._script = self._client.register_script(_GCRA)
        self._local = local
        self._timeout = timeout
        self._down = False
        self._last_reply_at = -timeout
        self._probe_at = 0.0

    async def take(self, key: str, rate: Rate, burst: int, cost: int = 1) -> float:
        """See `Limiter`. Waits for Redis for at most `timeout` seconds."""
        wait = await self._shared(key, rate, burst, cost)
        if wait is not None:
            return wait
        LIMITS_LOCAL.inc()
        return await self._local.take(key, rate, burst, cost)

    async def peek(self, key: str, rate: Rate, burst: int) -> float:
        """See `Limiter`. Waits for Redis for at most `timeout` seconds."""
        wait = await self._shared(key, rate, burst, 0)
        return await self._local.peek(key, rate, burst) if wait is None else wait

    async def _shared(self, key: str, rate: Rate, burst: int, cost: int) -> float | None:
        """The result from Redis; None while it does not reply. A `cost` of 0 only asks for one request.

        A late request is retried while Redis replies to others (a loaded process). What Redis counted meanwhile is
        lost to the key, so load makes a limit stricter, never looser.
        """
        for _ in range(ATTEMPTS):
            if self._down and not self._claims_probe():
                return None
            try:
                return await self._query(key, rate, burst, cost)
            except (RedisError, OSError) as error:
                self._note_failure(error)
        return None

    async def _query(self, key: str, rate: Rate, burst: int, cost: int) -> float:
        interval = rate.period / rate.requests * 1e6
        async with asyncio.timeout(self._timeout):
            arguments = [interval * max(cost, 1), interval * burst, min(cost, 1)]
            wait = await self._script([f"sidecar:rate:{key}"], arguments)
        self._note_reply()
        return int(wait) / 1e6

    def _note_reply(self) -> None:
        self._last_reply_at = time.monotonic()
        if self._down:
            self._down = False
            _log.info("redis_back")

    def _claims_probe(self) -> bool:
        """Whether this request is the one that probes."""
        now = time.monotonic()
        if now < self._probe_at:
            return False
        self._probe_at = now + self._timeout + PROBE_INTERVAL
        return True

    def _note_failure(self, error: Exception) -> None:
        if not self._down and time.monotonic() - self._last_reply_at >= self._timeout:
            _log.warning("redis_gone", kind=type(error).__name__)
            self._down = True
            self._probe_at = time.monotonic() + PROBE_INTERVAL

    @property
    def problem(self) -> str | None:
        """See `Dependency`."""
        return "Redis of the limits does not answer, each process limits by itself" if self._down else None

    async def probe(self) -> None:
        """See `Dependency`."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._client.ping()
        except (RedisError, OSError) as error:
            self._note_failure(error)
        else:
            self._note_reply()

    async def close(self) -> None:
        """Close the connections to Redis."""
        await self._client.aclose()


def _pool(url: str, timeout: float) -> BlockingConnectionPool:
    """A pool with one immediate retry, for connections that Redis has closed in the meantime."""
    try:
        return BlockingConnectionPool.from_url(
            url,
            max_connections=MAX_CONNECTIONS,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1),
        )
    except ValueError:
        raise ConfigError("limits.url", ["not a URL of Redis; write it like redis://HOST:6379/0"]) from None
