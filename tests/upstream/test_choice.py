"""Twin of sidecar/upstream/choice.py: one sidecar before two providers."""

from __future__ import annotations

import asyncio
import json

import pytest
from door import CHAT, door, eventually
from multidict import CIMultiDict
from recording import Received, recording, whole

from sidecar import upstream
from sidecar.config import ModelTerms
from sidecar.config import Upstream as UpstreamSettings
from sidecar.errors import ConfigError
from sidecar.upstream import Outgoing


async def test_each_model_goes_to_its_provider() -> None:
    """And what names no model, or another, to the default one."""
    async with recording(whole(b"{}")) as default, recording(whole(b"{}")) as other:
        models = {"claude-*": {"upstream": {"url": other.url}}}
        async with door(default.url, models=models) as made:
            for model in ("gpt-4o", "claude-x", "claude-y"):
                await made.ask(CHAT | {"model": model})
            async with made.session.get(f"{made.url}/models") as listed:
                assert listed.status == 200
            azure = f"{made.url.removesuffix('/v1')}/openai/deployments/claude-z/chat/completions"
            async with made.session.post(azure, json=CHAT | {"model": "gpt-4o"}) as answer:
                assert answer.status == 200
    assert [json.loads(got.body)["model"] for got in default.requests if got.body] == ["gpt-4o"]
    assert [json.loads(got.body)["model"] for got in other.requests] == ["claude-x", "claude-y", "gpt-4o"]


async def test_each_model_is_waited_for_as_its_entry_says() -> None:
    """A model that thinks for long has its time; the others are given up as before."""
    given_up = asyncio.Event()

    async def script(received: Received, writer: asyncio.StreamWriter) -> None:
        await (given_up.wait() if received.json()["model"] == "slow" else asyncio.sleep(3600))
        await whole(b"{}")(received, writer)

    models = {"slow": {"upstream": {"first_byte_timeout": "10m"}}}
    async with (
        recording(script) as behind,
        door(behind.url, models=models, upstream={"first_byte_timeout": 0.3}) as made,
    ):
        slow = asyncio.ensure_future(made.ask(CHAT | {"model": "slow"}))
        await eventually(lambda: behind.requests)
        assert (await made.ask(CHAT)).status == 504
        given_up.set()
        assert (await slow).status == 200


async def test_one_that_cannot_be_set_up_is_an_error_at_the_start() -> None:
    """The key's file of a model that is not there."""
    models = {"m": ModelTerms.model_validate({"upstream": {"url": "https://b.example", "api_key_file": "missing"}})}
    with pytest.raises(ConfigError, match="missing"):
        await upstream.open(UpstreamSettings(), models)


def test_a_request_carries_its_model_to_the_upstream() -> None:
    """None where nothing names one."""
    assert Outgoing("GET", "/v1/models", CIMultiDict()).model is None
