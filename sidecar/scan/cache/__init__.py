"""Cache of what a layer reported on a segment, in memory or in Redis."""

from __future__ import annotations

from typing import TypeVar

from sidecar import config
from sidecar.errors import ConfigError, needs_extra
from sidecar.scan.cache.cached_layer import CachedLayer
from sidecar.scan.cache.local import REPORT_CODEC, Cache, Codec, LocalCache, ReportCache

__all__ = ["REPORT_CODEC", "Cache", "CachedLayer", "Codec", "LocalCache", "ReportCache", "open"]
V = TypeVar("V")


async def open(settings: config.Cache, secret: bytes, codec: Codec[V]) -> Cache[V]:  # noqa: A001 - verdicts.open
    """The cache for one codec, from `memory://` or `redis://...`. An unreachable Redis is not an error."""
    local = LocalCache(settings.entries, settings.bytes, settings.ttl, codec)
    if settings.url == "memory://":
        return local
    if not settings.url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigError("cache.url", ["write memory:// or redis://HOST:6379"])
    try:
        from sidecar.scan.cache.redis import RedisCache  # noqa: PLC0415 - redis is an optional extra
    except ImportError:
        raise ConfigError("cache.url", [needs_extra("redis")]) from None
    return RedisCache(settings.url, local, secret, settings.ttl)
