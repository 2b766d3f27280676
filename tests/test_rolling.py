"""Restarts, two replicas in turn, under streams and steady requests: nothing is lost, nothing silently cut."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout, web
from aiohttp.test_utils import TestServer
from support import SidecarProcess, StartSidecar

RESTARTS = 10 if int(os.environ.get("CHAOS_ROUNDS", "1")) > 1 else 2
"""Ten in `make chaos`."""
STREAMS = 50
CHUNKS = 20
PAUSE = 0.1
POLICY = """family: jailbreak
rules:
  - {id: T-1, title: A word, score: 0.9, languages: [en], patterns: [pineapple], match: [pineapple], no_match: [pear]}
"""


async def answer(request: web.Request) -> web.StreamResponse:
    """A chat: at once, or word by word over two seconds."""
    if not (await request.json()).get("stream"):
        return web.json_response({"choices": []})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(CHUNKS):
        await response.write(b'data: {"choices": [{"index": 0, "delta": {"content": "%d "}}]}\n\n' % number)
        await asyncio.sleep(PAUSE)
    await response.write(b"data: [DONE]\n\n")
    return response


class Fleet:
    """Replicas behind something that sends new requests only to those that are in rotation, as a Service does."""

    def __init__(self, replicas: list[SidecarProcess]) -> None:
        self.replicas = replicas
        self.serving = list(replicas)
        self.seen: Counter[str] = Counter()
        self.stop = asyncio.Event()
        self._turn = 0

    def next(self) -> str:
        """The base URL of the next one in rotation."""
        self._turn += 1
        return self.serving[self._turn % len(self.serving)].base

    async def clients(self, session: ClientSession) -> None:
        """Streams and short requests without a pause, until the end."""
        async with asyncio.TaskGroup() as group:
            for number in range(STREAMS + 4):
                group.create_task(self._ask(session, stream=number < STREAMS))

    async def _ask(self, session: ClientSession, *, stream: bool) -> None:
        body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "pear"}]}
        while not self.stop.is_set():
            try:
                async with session.post(f"{self.next()}/v1/chat/completions", json=body) as found:
                    content = await found.read()
            except ClientError as error:
                self.seen[f"{'stream' if stream else 'request'} lost: {type(error).__name__}"] += 1
                continue
            whole = content.count(b"data: ") == CHUNKS + 1 and content.endswith(b"data: [DONE]\n\n")
            good = found.status == 200 and (whole or not stream)
            self.seen[f"{'stream' if stream else 'request'} {'whole' if good else f'bad: {found.status}'}"] += 1
            await asyncio.sleep(0.05)

    async def restart(self, replica: SidecarProcess) -> None:
        """Out of rotation, ended with its streams under way, started anew, back in rotation."""
        self.serving = [other for other in self.replicas if other is not replica]
        await asyncio.sleep(0.2)
        assert await asyncio.to_thread(replica.stop) == 0
        await asyncio.to_thread(replica.start)
        self.serving = list(self.replicas)


@pytest.fixture
async def upstream() -> AsyncIterator[str]:
    """The model."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/")).rstrip("/")


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_restarts_lose_nothing(start_sidecar: StartSidecar, upstream: str, tmp_path: Path) -> None:
    """Every stream that began ends with `[DONE]` and every word; every request has its answer."""
    (tmp_path / "policy.yaml").write_text(POLICY, "utf-8")
    settings = {
        "layers": {"semantic": {"enabled": False}},
        "policies": [str(tmp_path / "policy.yaml")],
        "upstream": {"url": upstream},
        "log": {"format": "json", "level": "warning"},
    }
    fleet = Fleet([await asyncio.to_thread(start_sidecar, settings) for _ in range(2)])
    async with ClientSession(timeout=ClientTimeout(total=300)) as session, asyncio.TaskGroup() as group:
        group.create_task(fleet.clients(session))
        try:
            for number in range(RESTARTS):
                await fleet.restart(fleet.replicas[number % 2])
        finally:
            fleet.stop.set()
    assert set(fleet.seen) == {"stream whole", "request whole"}, fleet.seen
    assert fleet.seen["stream whole"] >= STREAMS
