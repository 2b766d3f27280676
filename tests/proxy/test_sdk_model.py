"""A real small language model as upstream, asked by the official SDK through the door."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest
from inline_proxy import ATTACK, InlineProxy, run_proxy
from openai import AsyncOpenAI

from sidecar.upstream.local import MODEL_NAME

pytestmark = pytest.mark.slow
ASKED = [{"role": "user", "content": "Write one short sentence about the sea."}]


@pytest.fixture
async def made() -> AsyncIterator[InlineProxy]:
    """A door in front of the model."""
    patient = {"connect_timeout": 5.0, "first_byte_timeout": 60.0, "idle_timeout": 60.0}
    async with run_proxy("local://", upstream=patient) as results:
        yield results


async def test_a_model_behind_the_door_answers_token_by_token_and_never_sees_an_attack(made: InlineProxy) -> None:
    """The same words in a stream as at once, in many events; a block in between changes nothing."""
    question = {"model": "smol", "messages": ASKED, "max_tokens": 12, "temperature": 0, "seed": 1}
    async with AsyncOpenAI(api_key="none", base_url=made.url, timeout=60) as client:
        complete = await client.chat.completions.create(**question)
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="smol", messages=[{"role": "user", "content": ATTACK}])
        events = [event async for event in await client.chat.completions.create(**question, stream=True)]
        models = await client.models.list()
    reply = [event.choices[0].delta.content for event in events if event.choices and event.choices[0].delta.content]
    assert complete.choices[0].message.content == "".join(reply) != ""
    assert len(reply) > 3
    assert caught.value.code == "content_filter"
    assert [model.id for model in models.data] == [MODEL_NAME]
    assert [d.status for d in made.decision_log.decisions] == [200, 400, 200, 200]
