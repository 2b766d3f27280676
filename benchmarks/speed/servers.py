"""The two servers of every run: an upstream that counts its requests, and a bare aiohttp proxy.

The upstream has as little overhead as possible. It answers a chat immediately, or streams `max_tokens` events, one
every `seed` milliseconds, each with its send time. The bare proxy shows the cost of aiohttp itself: it reads a body,
forwards it with aiohttp's client and passes the response through without parsing either.

    python -m benchmarks.speed.servers upstream PORT
    python -m benchmarks.speed.servers bare PORT UPSTREAM-PORT
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import aiohttp
import orjson
import uvloop
from aiohttp import web

ANSWER = orjson.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
)
HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length", "date", "server"}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Counters:
    """Requests and bytes that the upstream received."""

    requests = 0
    body_bytes = 0


def event(content: str, finish: str | None = None) -> bytes:
    """One event of a streamed chat."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    document = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + orjson.dumps(document) + b"\n\n"


class Upstream(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    def __init__(self) -> None:
        self._data = b""
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer once the request is complete."""
        self._data += data
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator:
            return
        length = next((int(v) for k, v in _headers(head) if k == b"content-length"), 0)
        if len(body) < length:
            return
        self._data = body[length:]
        self._answer(head, body[:length])

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            counters = json.dumps([Counters.requests, Counters.body_bytes]).encode()
            self._transport.write(_HEAD % (len(counters), counters))
            return
        Counters.requests += 1
        Counters.body_bytes += len(body)
        if b'"stream":true' in body[:4096].replace(b" ", b"") + body[-4096:].replace(b" ", b""):
            self._task = asyncio.get_running_loop().create_task(self._stream(orjson.loads(body)))
        else:
            self._transport.write(_HEAD % (len(ANSWER), ANSWER))

    async def _stream(self, request: dict[str, int]) -> None:
        self._transport.write(_STREAM)
        begun, gap = time.monotonic(), request.get("seed", 5) / 1000
        for number in range(request.get("max_tokens", 50)):
            await asyncio.sleep(max(0.0, begun + number * gap - time.monotonic()))
            self._chunk(event(f"@{time.monotonic_ns()}@ "))
        self._chunk(event("", "stop") + b"data: [DONE]\n\n")
        self._transport.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol
        """Stop sending to a client that has disconnected."""
        if self._task is not None:
            self._task.cancel()


def _headers(head: bytes) -> list[tuple[bytes, bytes]]:
    parted = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return [(name.lower(), value.strip()) for name, _, value in parted]


async def upstream(port: int) -> None:
    """Serve forever."""
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


async def bare(port: int, to: int) -> None:
    """Forward every request, forever."""
    connector = aiohttp.TCPConnector(limit=256)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
            url = f"http://127.0.0.1:{to}{request.raw_path}"
            async with session.request(request.method, url, data=body, headers=headers) as answer:
                return await _pass(request, answer)

        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{tail:.*}", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        await asyncio.Event().wait()


async def _pass(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
    if answer.content_length is not None:
        return web.Response(status=answer.status, headers=headers, body=await answer.read())
    passed = web.StreamResponse(status=answer.status, headers=headers)
    await passed.prepare(request)
    async for chunk in answer.content.iter_any():
        await passed.write(chunk)
    await passed.write_eof()
    return passed


if __name__ == "__main__":
    numbers = [int(value) for value in sys.argv[2:]]
    uvloop.run(upstream(*numbers) if sys.argv[1] == "upstream" else bare(*numbers))
