"""The cache shared by all replicas, in Redis, behind the cache of this process.

Redis is not trusted: every value carries a MAC under a secret shared by the replicas, bound to its key. So write access
to Redis does not allow marking a text as harmless, and read access reveals only rule ids and scores of unknown texts. A
slow or unreachable Redis costs at most `TIMEOUT` once per `RETRY_INTERVAL`; meanwhile every lookup is a miss.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sidecar.errors import ConfigError
from sidecar.observability.metrics import CACHE
from sidecar.scan.cache.local import LocalCache
from sidecar.util import logs

TIMEOUT = 0.1
RETRY_INTERVAL = 1.0
FAILURES = 2
"""Failures in a row from which on Redis is reported as unreachable."""
MAX_CONNECTIONS = 8
PREFIX = b"sidecar:"
_MAC = 16
T = TypeVar("T")
V = TypeVar("V")
_log = logs.get("verdicts")


class RedisCache(Generic[V]):
    """The shared cache of one kind of value; `local` answers first and is filled from Redis."""

    def __init__(self, url: str, local: LocalCache[V], secret: bytes, ttl: float, timeout: float = TIMEOUT) -> None:
        self._client: Redis = Redis.from_pool(_pool(url, timeout))
        self._codec, self._prefix = local.codec, PREFIX + local.codec.name.encode() + b":"
        self._local, self._secret = local, secret[: hashlib.blake2b.MAX_KEY_SIZE]
        self._ttl, self._timeout = max(1, round(ttl)), timeout
        self._retry_at = 0.0
        self._failures = 0

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, V]:
        """See `Cache`."""
        requested = list(keys)
        cached = await self._local.get(requested)
        missing = [key for key in requested if key not in cached]
        if not missing:
            return cached
        values = await self._call(lambda: self._client.mget([self._prefix + key for key in missing])) or []
        shared = {
            key: verified
            for key, value in zip(missing, values, strict=False)
            if value is not None and (verified := self._verify(key, value)) is not None
        }
        await self._local.put(shared)
        return cached | shared

    async def put(self, values: Mapping[bytes, V]) -> None:
        """See `Cache`."""
        await self._local.put(values)
        if values:
            await self._call(lambda: self._write(values))

    @property
    def problem(self) -> str | None:
        """See `Dependency`. One late reply is none yet."""
        return "Redis of the cache does not answer" if self._failures >= FAILURES else None

    async def probe(self) -> None:
        """See `Dependency`."""
        await self._call(self._client.ping)

    async def close(self) -> None:
        """Close the connections to Redis."""
        await self._client.aclose()

    async def _write(self, values: Mapping[bytes, V]) -> None:
        async with self._client.pipeline(transaction=False) as pipe:
            for key, value in values.items():
                pipe.set(self._prefix + key, self._seal(key, value), ex=self._ttl)
            await pipe.execute()

    async def _call(self, operation: Any) -> Any:
        """The reply; None without one in time. After a failure Redis is not called for a while."""
        if time.monotonic() < self._retry_at:
            return None
        try:
            async with asyncio.timeout(self._timeout):
                reply = await _as_coroutine(operation())
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            self._failures += 1
            self._retry_at = time.monotonic() + RETRY_INTERVAL
            CACHE.labels("redis", "failed").inc()
            _log.warning("redis_unanswered", kind=type(error).__name__)
            return None
        self._failures = 0
        return reply

    def _seal(self, key: bytes, value: V) -> bytes:
        body = self._codec.dump(value)
        return self._mac(key, body) + body

    def _verify(self, key: bytes, sealed: bytes) -> V | None:
        """The value; None if no replica wrote it under this key."""
        mac, body = sealed[:_MAC], sealed[_MAC:]
        if not hmac.compare_digest(mac, self._mac(key, body)):
            CACHE.labels("redis", "forged").inc()
            return None
        return self._codec.load(body)

    def _mac(self, key: bytes, body: bytes) -> bytes:
        return hashlib.blake2b(
            key + body, digest_size=_MAC, key=self._secret, person=f"{self._codec.name} mac".encode()
        ).digest()


async def _as_coroutine(answer: Awaitable[T]) -> T:
    return await answer


def _pool(url: str, timeout: float) -> BlockingConnectionPool:
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
        raise ConfigError("cache.url", ["not a URL of Redis; write it like redis://HOST:6379/0"]) from None
