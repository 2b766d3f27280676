"""Upstreams: an OpenAI-compatible service over HTTP, the built-in echo, and a small local model."""

from __future__ import annotations

from sidecar.config import Upstream as Settings
from sidecar.upstream.echo import EchoUpstream
from sidecar.upstream.http import HttpUpstream, read_credential
from sidecar.upstream.local import LocalUpstream
from sidecar.upstream.message import Answer, Outgoing, Upstream

__all__ = ["Answer", "Outgoing", "Upstream", "open"]


async def open(settings: Settings) -> Upstream:  # noqa: A001 - read as upstream.open
    """The upstream that `upstream.url` names. Raises `ConfigError` when it cannot be set up."""
    scheme = settings.url.partition("://")[0]
    if scheme == "echo":
        return EchoUpstream()
    if scheme == "local":
        return await LocalUpstream.start(settings)
    return HttpUpstream(settings.url, settings, read_credential(settings.api_key_file))
