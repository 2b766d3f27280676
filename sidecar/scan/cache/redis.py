"""What all replicas remember together, in Redis, behind the memory of this process.

Redis is believed only as far as it can prove itself: every value carries a MAC under the secret that the
replicas share, bound to its key, so that whoever can write to Redis cannot acquit a text, and whoever reads
it learns rule ids and scores of texts that it cannot name. A Redis that is slow or gone costs at most `TIMEOUT`
once a `PAUSE`, and then every text is new.
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
from sidecar.scan.cache.local import LocalMemory
from sidecar.util import logs

TIMEOUT = 0.1
PAUSE = 1.0
CONNECTIONS = 8
PREFIX = b"sidecar:"
_MAC = 16
T = TypeVar("T")
V = TypeVar("V")
_log = logs.get("verdicts")


class RedisMemory(Generic[V]):
    """The shared memory of one kind of value; `local` answers first and is filled from it."""

    def __init__(self, url: str, local: LocalMemory[V], secret: bytes, ttl: float, timeout: float = TIMEOUT) -> None:
        self._client: Redis = Redis.from_pool(_pool(url, timeout))
        self._form, self._prefix = local.form, PREFIX + local.form.name.encode() + b":"
        self._local, self._secret = local, secret[: hashlib.blake2b.MAX_KEY_SIZE]
        self._ttl, self._timeout = max(1, round(ttl)), timeout
        self._ask_again = 0.0

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, V]:
        """See `Memory`."""
        wanted = list(keys)
        found = await self._local.get(wanted)
        missing = [key for key in wanted if key not in found]
        if not missing:
            return found
        values = await self._try(lambda: self._client.mget([self._prefix + key for key in missing])) or []
        shared = {
            key: opened
            for key, value in zip(missing, values, strict=False)
            if value is not None and (opened := self._open(key, value)) is not None
        }
        await self._local.put(shared)
        return found | shared

    async def put(self, values: Mapping[bytes, V]) -> None:
        """See `Memory`."""
        await self._local.put(values)
        if values:
            await self._try(lambda: self._write(values))

    async def close(self) -> None:
        """Close the connections to Redis."""
        await self._client.aclose()

    async def _write(self, values: Mapping[bytes, V]) -> None:
        async with self._client.pipeline(transaction=False) as pipe:
            for key, value in values.items():
                pipe.set(self._prefix + key, self._seal(key, value), ex=self._ttl)
            await pipe.execute()

    async def _try(self, ask: Any) -> Any:
        """The answer; None if there is none in time. After that Redis is left alone for a moment."""
        if time.monotonic() < self._ask_again:
            return None
        try:
            async with asyncio.timeout(self._timeout):
                return await _awaited(ask())
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            self._ask_again = time.monotonic() + PAUSE
            CACHE.labels("redis", "failed").inc()
            _log.warning("redis_unanswered", kind=type(error).__name__)
            return None

    def _seal(self, key: bytes, value: V) -> bytes:
        body = self._form.dump(value)
        return self._mac(key, body) + body

    def _open(self, key: bytes, sealed: bytes) -> V | None:
        """The value; None for what none of us wrote under this key."""
        mac, body = sealed[:_MAC], sealed[_MAC:]
        if not hmac.compare_digest(mac, self._mac(key, body)):
            CACHE.labels("redis", "forged").inc()
            return None
        return self._form.load(body)

    def _mac(self, key: bytes, body: bytes) -> bytes:
        return hashlib.blake2b(
            key + body, digest_size=_MAC, key=self._secret, person=f"{self._form.name} mac".encode()
        ).digest()


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


def _pool(url: str, timeout: float) -> BlockingConnectionPool:
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
        raise ConfigError("cache.url", ["not a URL of Redis; write it like redis://HOST:6379/0"]) from None
