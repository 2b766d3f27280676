"""What the layers said of a text before: remembered in memory or in Redis, and asked for before a layer is."""

from __future__ import annotations

from typing import TypeVar

from sidecar import config
from sidecar.errors import ConfigError
from sidecar.scan.cache.cached_layer import Remembering
from sidecar.scan.cache.local import REPORTS, Form, LocalMemory, Memory, Verdicts

__all__ = ["REPORTS", "Form", "LocalMemory", "Memory", "Remembering", "Verdicts", "open"]
V = TypeVar("V")


async def open(settings: config.Cache, secret: bytes, form: Form[V]) -> Memory[V]:  # noqa: A001 - verdicts.open
    """The memory of one kind, for `memory://` or `redis://...`. A Redis that does not answer now is no error."""
    local = LocalMemory(settings.entries, settings.bytes, settings.ttl, form)
    if settings.url == "memory://":
        return local
    if not settings.url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigError("cache.url", ["write memory:// or redis://HOST:6379"])
    try:
        from sidecar.scan.cache.redis import RedisMemory  # noqa: PLC0415 - redis is an optional extra
    except ImportError:
        raise ConfigError("cache.url", ["install prompt-sidecar[redis]"]) from None
    return RedisMemory(settings.url, local, secret, settings.ttl)
