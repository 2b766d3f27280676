"""How often, how many at once and how much: a rate per key in memory or in Redis, bounds on scans and on memory."""

from __future__ import annotations

from sidecar.errors import ConfigError
from sidecar.limits.concurrency import Concurrency, QueueFull
from sidecar.limits.memory_budget import Lease, NoRoom, Room
from sidecar.limits.rate import Limiter, MemoryLimiter

__all__ = ["Concurrency", "Lease", "Limiter", "MemoryLimiter", "NoRoom", "QueueFull", "Room", "open"]


async def open(url: str) -> Limiter:  # noqa: A001 - read as limits.open
    """The limiter for `memory://` or `redis://...`. A Redis that does not answer now is no error."""
    if url == "memory://":
        return MemoryLimiter()
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigError("limits.url", ["write memory:// or redis://HOST:6379"])
    try:
        from sidecar.limits.redis import RedisLimiter  # noqa: PLC0415 - redis is an optional extra
    except ImportError:
        raise ConfigError("limits.url", ["install prompt-sidecar[redis]"]) from None
    return RedisLimiter(url, MemoryLimiter())
