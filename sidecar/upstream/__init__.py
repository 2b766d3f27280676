"""Upstreams: an OpenAI-compatible service over HTTP, the built-in echo, and a small local model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sidecar.config import ModelTerms
from sidecar.config import Upstream as Settings
from sidecar.upstream.choice import ChosenUpstream
from sidecar.upstream.echo import EchoUpstream
from sidecar.upstream.http import HttpUpstream, read_credential
from sidecar.upstream.local import LocalUpstream
from sidecar.upstream.message import Answer, Outgoing, Upstream

__all__ = ["Answer", "Outgoing", "Upstream", "open"]


async def open(settings: Settings, models: Mapping[str, ModelTerms] = MappingProxyType({})) -> Upstream:  # noqa: A001
    """The upstream that `upstream.url` names, or a choice of it and those of models. Raises `ConfigError`."""
    default = await _one(settings)
    others: dict[str, Upstream] = {}
    try:
        for name, terms in models.items():
            if terms.upstream is not None:
                others[name] = await _one(terms.over(settings))
    except BaseException:
        await ChosenUpstream(default, others).close()
        raise
    return ChosenUpstream(default, others) if others else default


async def _one(settings: Settings) -> Upstream:
    scheme = settings.url.partition("://")[0]
    if scheme == "echo":
        return EchoUpstream()
    if scheme == "local":
        return await LocalUpstream.start(settings)
    return HttpUpstream(settings.url, settings, read_credential(settings.api_key_file))
