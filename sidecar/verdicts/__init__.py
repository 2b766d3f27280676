"""What the layers said of a text before: remembered in memory or in Redis, and asked for before a layer is."""

from __future__ import annotations

from sidecar import config
from sidecar.errors import ConfigError
from sidecar.verdicts.memory import MemoryVerdicts, Verdicts
from sidecar.verdicts.remembering import Remembering

__all__ = ["MemoryVerdicts", "Remembering", "Verdicts", "open"]


async def open(settings: config.Cache, secret: bytes) -> Verdicts:  # noqa: A001 - read as verdicts.open
    """The memory for `memory://` or `redis://...`. A Redis that does not answer now is no error."""
    local = MemoryVerdicts(settings.entries, settings.bytes, settings.ttl)
    if settings.url == "memory://":
        return local
    if not settings.url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigError("cache.url", ["write memory:// or redis://HOST:6379"])
    try:
        from sidecar.verdicts.shared import RedisVerdicts  # noqa: PLC0415 - redis is an optional extra
    except ImportError:
        raise ConfigError("cache.url", ["install prompt-sidecar[redis]"]) from None
    return RedisVerdicts(settings.url, local, secret, settings.ttl)
