"""The judge's client on the wire: dialects, headers, URLs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from detectors.judge import judge_server as judges
from detectors.judge.judge_server import Case, JudgeServer

from sidecar.config import JudgeLayer
from sidecar.detectors.judge import prompt
from sidecar.detectors.judge.client import JudgeClient
from sidecar.errors import ConfigError, LayerError

ASK = prompt.messages(prompt.BUILT_IN, "k1", "hack", None)


def client_for(url: str, **settings: Any) -> JudgeClient:
    """A client with a long deadline."""
    options = {"model": "m", "timeout": 10.0, **settings}
    return JudgeClient(JudgeLayer(url=url, **options), prompt.schema(prompt.BUILT_IN))


async def ask(client: JudgeClient) -> int:
    """One call; returns its tokens."""
    async with client.slot() as ends:
        return (await client.ask({"messages": ASK}, ends)).tokens


def takes_only(*parameters: str) -> judges.Answer:
    """A server that answers 400 to a body with a field that it does not know."""

    async def answer(case: Case) -> web.StreamResponse:
        unknown = set(case.body) - {"model", "messages", *parameters}
        if unknown:
            return web.json_response({"error": {"message": f"unsupported: {unknown}"}}, status=400)
        return await judges.honest(case)

    return answer


@pytest.mark.parametrize(
    ("known", "calls"),
    [
        (("response_format", "logprobs", "top_logprobs", "max_tokens", "temperature"), 1),
        (("response_format", "max_tokens", "temperature"), 2),
        (("response_format", "max_completion_tokens"), 3),
        (("max_tokens", "temperature"), 4),
        (("max_completion_tokens",), 5),
    ],
)
async def test_the_dialect_of_a_server_is_found_once(known: tuple[str, ...], calls: int) -> None:
    """A 400 leads to the next dialect; the one that works is kept."""
    async with JudgeServer(takes_only(*known)) as server:
        client = client_for(server.url)
        await ask(client)
        assert server.calls == calls
        await ask(client)
        assert server.calls == calls + 1
        await client.close()


async def test_a_request_refused_in_every_form_teaches_nothing() -> None:
    """A 400 to everything, for instance because the text is too long, leaves the best dialect in place."""
    async with JudgeServer(judges.failing(400, times=5)) as server:
        client = client_for(server.url)
        with pytest.raises(LayerError, match="refused in every form"):
            await ask(client)
        await ask(client)
        assert "logprobs" in server.bodies[-1]
        await client.close()


async def test_a_confirmed_dialect_is_kept_after_one_refusal() -> None:
    """Once a dialect works, a 400 is about this text: one call, no search."""
    async with JudgeServer() as server:
        client = client_for(server.url)
        await ask(client)
        server.answer = judges.failing(400)
        with pytest.raises(LayerError, match="refused"):
            await ask(client)
        assert server.calls == 2
        await client.close()


async def test_a_model_that_thinks_longer_than_the_answer_may_be_gets_room() -> None:
    """A reasoning model that accepts `max_tokens` spends them on its thoughts: the next call lets it think."""

    async def thinking(case: Case) -> Any:
        room = case.body.get("max_completion_tokens", 0) > 1000
        return judges.completion(case.verdict(0) if room else "", finish_reason="stop" if room else "length")

    async with JudgeServer(thinking) as server:
        client = client_for(server.url)
        await ask(client)
        await ask(client)
        assert ["max_completion_tokens" in body for body in server.bodies] == [False, True, True]
        await client.close()


async def test_a_confirmed_dialect_changes_for_one_cut_answer_only_if_that_helps() -> None:
    """A server that cuts every answer is asked once more, and its dialect stays."""

    async def cut(case: Case) -> Any:
        return judges.completion("", finish_reason="length")

    async with JudgeServer() as server:
        client = client_for(server.url)
        await ask(client)
        server.answer = cut
        await ask(client)
        server.answer = judges.honest
        calls = server.calls
        await ask(client)
        assert server.calls == calls + 1
        await client.close()


async def test_questions_at_once_find_the_dialect_together() -> None:
    """A dialect that another question has confirmed meanwhile is tried, too."""
    gate = asyncio.Event()

    async def late(case: Case) -> web.StreamResponse:
        if server.calls == 2:
            await gate.wait()
        reply = await refusing(case)
        if "response_format" not in case.body:
            gate.set()
        return reply

    refusing = takes_only("max_tokens", "temperature")
    async with JudgeServer(late) as server:
        client = client_for(server.url)
        await asyncio.gather(ask(client), ask(client))
        await client.close()


async def test_a_404_leads_to_the_next_dialect_and_in_every_form_counts_as_a_failure() -> None:
    """OpenRouter answers so where no provider knows the schema; a wrong path does so, too, and costs no tokens."""
    async with JudgeServer(judges.failing(404, times=1)) as server:
        client = client_for(server.url)
        await ask(client)
        assert server.calls == 2
        await client.close()
    async with JudgeServer(judges.failing(404)) as server:
        client = client_for(server.url, breaker_failures=1)
        with pytest.raises(LayerError, match="refused in every form"):
            await ask(client)
        assert client._tokens.remaining == 1.0
        with pytest.raises(LayerError, match="breaker_open"):
            async with client.slot():
                pass
        await client.close()


async def test_tokens_are_what_the_server_reports_or_estimated() -> None:
    """`usage.total_tokens` if given, else a third of the bytes."""
    async with JudgeServer() as server:
        client = client_for(server.url)
        assert await ask(client) == 500
        server.answer = judges.raw(b'{"choices": []}')
        assert 500 < await ask(client) < 3000
        await client.close()


async def test_a_compressed_answer_is_not_inflated() -> None:
    """A compressed response was not requested: it is garbage and is not decompressed."""
    async with JudgeServer(judges.raw(b"\x1f\x8b\x08")) as server:
        client = client_for(server.url)
        with pytest.raises(LayerError) as caught:
            await ask(client)
        assert caught.value.cause == "garbage"
        assert server.headers[0]["Accept-Encoding"] == "identity"
        await client.close()


async def test_retries_have_a_budget_of_their_own() -> None:
    """The retry budget bounds retries of a failing judge."""
    async with JudgeServer(judges.failing(503)) as server:
        client = client_for(server.url, breaker_failures=1000)
        for _ in range(30):
            with pytest.raises(LayerError):
                await ask(client)
        await client.close()
    assert 30 <= server.calls <= 30 * 1.2 + 5


async def test_a_date_in_retry_after_is_understood() -> None:
    """The header may hold a date; one long gone means now."""
    headers = {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}
    async with JudgeServer(judges.failing(503, headers, times=1)) as server:
        client = client_for(server.url)
        await ask(client)
        assert server.calls == 2
        await client.close()


@pytest.mark.parametrize("value", ["soon", "-5", "1e9", "", "99999999999999999999"])
async def test_a_senseless_retry_after_does_no_harm(value: str) -> None:
    """Whatever the header holds, the call ends within its deadline with a cause."""
    async with JudgeServer(judges.failing(503, {"Retry-After": value})) as server:
        client = client_for(server.url)
        with pytest.raises(LayerError) as caught:
            await ask(client)
        assert caught.value.cause == "unavailable"
        await client.close()


@pytest.mark.parametrize("url", ["ftp://x/v1", "http://", "judge:8000", ""])
def test_a_url_that_is_none_stops_the_start(url: str) -> None:
    """Only http and https with a host."""
    with pytest.raises(ConfigError, match=r"layers\.llm_judge\.url"):
        client_for(url)


async def test_a_url_may_name_the_whole_route() -> None:
    """With or without `/chat/completions`, with or without a slash at the end."""
    async with JudgeServer() as server:
        for url in (server.url, server.url + "/", server.url + "/chat/completions"):
            client = client_for(url)
            assert await ask(client) == 500
            await client.close()
