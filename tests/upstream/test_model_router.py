"""Tests of one sidecar in front of two providers."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest
from inline_proxy import CHAT, eventually, run_proxy
from multidict import CIMultiDict
from recording import Received, recording, respond
from support import free_port

from sidecar import upstream
from sidecar.config import ModelOverrides
from sidecar.config import Upstream as UpstreamSettings
from sidecar.errors import ConfigError, UpstreamError
from sidecar.types import Dependency
from sidecar.upstream import UpstreamRequest


async def test_each_model_goes_to_its_provider() -> None:
    """Requests without a model, or with one that has no entry, go to the default provider."""
    async with recording(respond(b"{}")) as default, recording(respond(b"{}")) as second:
        models = {"claude-*": {"upstream": {"url": second.url}}}
        async with run_proxy(default.url, models=models) as client:
            for model in ("gpt-4o", "claude-x", "claude-y"):
                await client.ask(CHAT | {"model": model})
            async with client.session.get(f"{client.url}/models") as response:
                assert response.status == 200
            azure = f"{client.url.removesuffix('/v1')}/openai/deployments/claude-z/chat/completions"
            async with client.session.post(azure, json=CHAT | {"model": "gpt-4o"}) as response:
                assert response.status == 200
    assert [json.loads(request.body)["model"] for request in default.requests if request.body] == ["gpt-4o"]
    assert [json.loads(request.body)["model"] for request in second.requests] == ["claude-x", "claude-y", "gpt-4o"]


async def test_each_model_has_its_timeout() -> None:
    """A slow model gets its longer timeout; requests for other models time out as before."""
    released = asyncio.Event()

    async def script(received: Received, writer: asyncio.StreamWriter) -> None:
        await (released.wait() if received.json()["model"] == "slow" else asyncio.sleep(3600))
        await respond(b"{}")(received, writer)

    models = {"slow": {"upstream": {"first_byte_timeout": "10m"}}}
    async with (
        recording(script) as provider,
        run_proxy(provider.url, models=models, upstream={"first_byte_timeout": 0.3}) as client,
    ):
        slow = asyncio.ensure_future(client.ask(CHAT | {"model": "slow"}))
        await eventually(lambda: provider.requests)
        assert (await client.ask(CHAT)).status == 504
        released.set()
        assert (await slow).status == 200


async def test_an_unusable_entry_is_an_error_at_startup() -> None:
    """The entry names a missing key file."""
    models = {"m": ModelOverrides.model_validate({"upstream": {"url": "https://b.example", "api_key_file": "missing"}})}
    with pytest.raises(ConfigError, match="missing"):
        await upstream.open(UpstreamSettings(), models)


def test_a_request_carries_its_model_to_the_upstream() -> None:
    """None if the request names no model."""
    assert UpstreamRequest("GET", "/v1/models", CIMultiDict()).model is None


async def test_the_health_is_that_of_every_provider() -> None:
    """The provider that cannot be reached is named, and found again by a probe."""
    async with recording(respond(b"{}")) as reached:
        away = free_port()
        models = {"claude-*": ModelOverrides.model_validate({"upstream": {"url": f"http://127.0.0.1:{away}"}})}
        router = await upstream.open(UpstreamSettings(url=reached.url), models)
        assert isinstance(router, Dependency)
        assert router.problem is None
        for model in ("gpt-4o", "claude-x"):
            with suppress(UpstreamError):
                async with router.send(UpstreamRequest("GET", "/v1/models", CIMultiDict(), model=model)):
                    pass
        assert router.problem == f"upstream http://127.0.0.1:{away} cannot be reached: connection refused"
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", away)
        await router.probe()
        assert router.problem is None
        server.close()
        await router.close()
