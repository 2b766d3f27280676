"""Shutdown of a separate process while streams run: one deadline, and every client gets an error or its end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from chaos.load import ROUNDS, SENTENCE, process_settings
from chaos.world import patiently
from recording import Received, head, recording, stream
from support import SidecarProcess

from sidecar.server.server import SHUTTING_DOWN

pytestmark = pytest.mark.timeout(600)
CHAT = {"model": "m", "stream": True, "messages": [{"role": "user", "content": SENTENCE}]}
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n'
LONG = ROUNDS > 1
SECONDS = 45 if LONG else 4
"""Duration of the streams that end by themselves."""


async def streamed(session: aiohttp.ClientSession, url: str) -> str:
    """All bytes of one stream, whether it ended cleanly or not."""
    came = b""
    async with session.post(f"{url}/v1/chat/completions", json=CHAT) as answer:
        try:
            async for chunk in answer.content.iter_any():
                came += chunk
        except aiohttp.ClientPayloadError:
            return came.decode() + "(cut)"
    return came.decode()


async def drained(folder: Path, events: int, **drain: str) -> list[str]:
    """What eight clients received that read since before SIGTERM, at an event per second; the process exits with 0."""
    script = stream([EVENT] * events, pause=1.0)
    async with recording(script) as upstream, aiohttp.ClientSession() as session:
        running = SidecarProcess(folder, process_settings(folder, upstream.url, drain=drain))
        await asyncio.to_thread(running.start)
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(streamed(session, running.base)) for _ in range(8)]
            await patiently(lambda: len(upstream.requests) == 8)
            await asyncio.sleep(1)
            assert await asyncio.to_thread(running.stop, 180) == 0
        return [client.result() for client in clients]


async def test_streams_of_the_usual_length_end_by_themselves(tmp_path: Path) -> None:
    """The default drain timeout is long enough for streams of 45 seconds (4 in the short run)."""
    for came in await drained(tmp_path, SECONDS):
        assert came == EVENT.decode() * SECONDS


async def test_what_does_not_end_is_told_within_one_deadline(tmp_path: Path) -> None:
    """Streams beyond the deadline get an error event and no clean end, long before they would have ended."""
    for came in await drained(tmp_path, 500, timeout="4s"):
        error, _, end = came.rpartition("data: ")
        assert error.startswith(EVENT.decode())
        assert len(error) < len(EVENT) * 100
        assert json.loads(end.removesuffix("(cut)"))["error"]["message"] == SHUTTING_DOWN
        assert end.endswith("(cut)")


async def test_while_it_drains_it_is_not_ready_and_takes_nobody_in(tmp_path: Path) -> None:
    """/ready reports it, new connections are refused, and the running stream continues to its end."""
    arrived = asyncio.Event()

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "text/event-stream", "Connection: close") + EVENT)
        await arrived.wait()
        writer.write(EVENT)
        writer.close()

    async with recording(script) as upstream, aiohttp.ClientSession() as session:
        running = SidecarProcess(tmp_path, process_settings(tmp_path, upstream.url))
        await asyncio.to_thread(running.start)
        talking = asyncio.ensure_future(streamed(session, running.base))

        async def drains() -> bool:
            async with session.get(f"{running.admin}/ready") as answer:
                return answer.status == 503 and "draining" in await answer.text()

        await patiently(lambda: len(upstream.requests) == 1)
        assert running.process is not None
        running.process.terminate()
        await patiently(drains)
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"{running.base}/health")
        arrived.set()
        assert await talking == EVENT.decode() * 2
        assert await asyncio.to_thread(running.process.wait, 60) == 0
