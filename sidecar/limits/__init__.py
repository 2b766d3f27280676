"""Limits: a rate per key, in memory or in Redis; bulkheads for scans; a memory budget for request bodies."""

from __future__ import annotations

from sidecar.errors import ConfigError, needs_extra
from sidecar.limits.bulkhead import counted_bulkhead
from sidecar.limits.memory_budget import MemoryBudget, OverBudget, Reservation
from sidecar.limits.rate import Limiter, MemoryLimiter

__all__ = ["Limiter", "MemoryBudget", "MemoryLimiter", "OverBudget", "Reservation", "counted_bulkhead", "open"]


async def open(url: str) -> Limiter:  # noqa: A001 - read as limits.open
    """The limiter for `memory://` or `redis://...`. An unreachable Redis is not an error."""
    if url == "memory://":
        return MemoryLimiter()
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigError("limits.url", ["write memory:// or redis://HOST:6379"])
    try:
        from sidecar.limits.redis import RedisLimiter  # noqa: PLC0415 - redis is an optional extra
    except ImportError:
        raise ConfigError("limits.url", [needs_extra("redis")]) from None
    return RedisLimiter(url, MemoryLimiter())
