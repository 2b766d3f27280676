"""Upstreams: an OpenAI-compatible service over HTTP, the built-in echo, and a small local model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sidecar.config import ModelOverrides
from sidecar.config import Upstream as Settings
from sidecar.upstream.echo import EchoUpstream
from sidecar.upstream.http import HttpUpstream, read_credential
from sidecar.upstream.local import LocalUpstream
from sidecar.upstream.message import Upstream, UpstreamRequest, UpstreamResponse
from sidecar.upstream.model_router import ModelRouter

__all__ = ["Upstream", "UpstreamRequest", "UpstreamResponse", "open"]


async def open(settings: Settings, models: Mapping[str, ModelOverrides] = MappingProxyType({})) -> Upstream:  # noqa: A001
    """The upstream of `upstream.url`, or a router over it and those of `models`. Raises `ConfigError`."""
    default = await _open_one(settings)
    routes: dict[str, Upstream] = {}
    try:
        for name, terms in models.items():
            if terms.upstream is not None:
                routes[name] = await _open_one(terms.merged_with(settings))
    except BaseException:
        await ModelRouter(default, routes).close()
        raise
    return ModelRouter(default, routes) if routes else default


async def _open_one(settings: Settings) -> Upstream:
    scheme = settings.url.partition("://")[0]
    if scheme == "echo":
        return EchoUpstream()
    if scheme == "local":
        return await LocalUpstream.start(settings)
    return HttpUpstream(settings.url, settings, read_credential(settings.api_key_file))
