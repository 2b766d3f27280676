"""Slow exchanges that must succeed: silent streams, large events and slow uploads, against a separate process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from chaos.load import ROUNDS, SENTENCE, process_settings
from recording import Received, recording, respond
from support import SidecarProcess

pytestmark = pytest.mark.timeout(1200)
LONG = ROUNDS > 1
SILENCE = 100.0 if LONG else 3.0
"""Seconds between two events of the stream."""
EVENTS = 7 if LONG else 3
"""Number of events: at full length the stream takes ten minutes."""
LARGE = 8 * 1024 * 1024
RATE, UPLOAD = 16_000, 2_400_000 if LONG else 80_000
"""Bytes per second, and in total: two and a half minutes at full length."""


def event(content: str) -> bytes:
    """A chunk of a chat completion."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": None}
    value = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


async def silent(_: Received, writer: asyncio.StreamWriter) -> None:
    """A stream with long silences, and a large event at its end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for number in range(EVENTS):
        writer.write(event(f"{number} "))
        await writer.drain()
        await asyncio.sleep(SILENCE)
    writer.write(event("x" * LARGE) + b"data: [DONE]\n\n")
    await writer.drain()


async def test_a_stream_with_silences_and_a_large_event_ends_well(tmp_path: Path) -> None:
    """OpenAI's SDK with its default timeouts; at full length ten minutes, with 100 seconds between two events."""
    async with recording(silent) as upstream:
        running = SidecarProcess(tmp_path, process_settings(tmp_path, upstream.url))
        await asyncio.to_thread(running.start)
        messages: Any = [{"role": "user", "content": SENTENCE}]
        async with openai.AsyncOpenAI(base_url=f"{running.base}/v1", api_key="k", max_retries=0) as client:
            chunks: Any = await client.chat.completions.create(model="m", messages=messages, stream=True)
            got = [chunk async for chunk in chunks]
        await asyncio.to_thread(running.stop, 60)
    contents = [chunk.choices[0].delta.content for chunk in got]
    assert contents[:-1] == [f"{number} " for number in range(EVENTS)]
    assert len(contents[-1]) == LARGE
    assert len(upstream.requests) == 1


async def slowly(body: bytes) -> AsyncIterator[bytes]:
    """A body at 16 kB a second."""
    for at in range(0, len(body), RATE // 4):
        yield body[at : at + RATE // 4]
        await asyncio.sleep(0.25)


async def test_a_slow_upload_is_read_to_its_end(tmp_path: Path) -> None:
    """A slow client is not cut off while it makes progress, and its request is forwarded complete."""
    text = f"{SENTENCE} " * (UPLOAD // (len(SENTENCE) + 1))
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    async with recording(respond(b'{"ok": true}')) as upstream, aiohttp.ClientSession() as session:
        running = SidecarProcess(tmp_path, process_settings(tmp_path, upstream.url))
        await asyncio.to_thread(running.start)
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        url = f"{running.base}/v1/chat/completions"
        async with session.post(url, data=slowly(body), headers=fields) as answer:
            assert (answer.status, await answer.json()) == (200, {"ok": True})
        await asyncio.to_thread(running.stop, 60)
    assert upstream.bodies == [body]
