"""Proxies without aiohttp's server and client, for `benchmarks.speed.raw_path`; they are no part of the product.

A protocol on uvloop parses requests and responses by aiohttp's compiled parser (llhttp), and forwards over kept-alive
connections. `raw` scans nothing; `scan` does with each body what `benchmarks.speed.raw_scans` says.

Left out, so that a product on such a protocol costs more: limits of sizes, rates, times, memory and connections;
backpressure, pipelining and retries; keys and profiles; the rules for headers but the hop-by-hop ones; verdict headers;
content codings, queries and routes beside chats; receipts, traces and responses that are scanned; error responses (a
malformed body ends its connection).

    python -m benchmarks.speed.raw_server raw|scan PORT UPSTREAM-PORT
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import uvloop
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser, HttpResponseParser
from aiohttp.streams import StreamReader

from benchmarks.speed.raw_scans import LOOPBACK, ChatScans, open_scans
from benchmarks.speed.servers import HOP
from sidecar.errors import RequestError
from sidecar.util.tasks import Background

UNBOUNDED = 2**30
HOP_NAMES = frozenset(name.encode() for name in HOP)


class ConnectionPool:
    """Kept-alive connections to the upstream."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._background = Background()
        self.idle: list[UpstreamConnection] = []

    def send(self, request: bytes, client: asyncio.Transport) -> None:
        """Send on an idle connection, or on a new one."""
        if self.idle:
            self.idle.pop().send(request, client)
        else:
            self._background.spawn(self._connect(request, client))

    async def _connect(self, request: bytes, client: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: UpstreamConnection(loop, self), LOOPBACK, self._port)
        connection.send(request, client)


class UpstreamConnection(BaseProtocol):
    """Writes each response to its client as it arrives."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: ConnectionPool) -> None:
        super().__init__(loop)
        self._pool = pool
        self._responses = HttpResponseParser(self, loop, UNBOUNDED, auto_decompress=False)
        self._client: asyncio.Transport
        self._body: StreamReader | None = None

    def send(self, request: bytes, client: asyncio.Transport) -> None:
        """Send a request; its response goes to `client`."""
        self._client = client
        cast("asyncio.Transport", self.transport).write(request)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on; after the last one the connection is idle."""
        self._client.write(data)
        messages, _, _ = self._responses.feed_data(data)
        self._body = messages[0][1] if messages else self._body
        if self._body is not None and self._body.is_eof():
            self._body = None
            self._pool.idle.append(self)

    def connection_lost(self, error: BaseException | None) -> None:
        """Close the client's connection, too, if its response is not complete."""
        super().connection_lost(error)
        if self in self._pool.idle:
            self._pool.idle.remove(self)
        else:
            self._client.close()


class ClientConnection(BaseProtocol):
    """Forwards complete requests, one at a time; with `scans` those of a POST only if they are allowed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: ConnectionPool, scans: ChatScans | None) -> None:
        super().__init__(loop)
        self._pool, self._scans, self._background = pool, scans, Background()
        self._requests = HttpRequestParser(self, loop, UNBOUNDED, auto_decompress=False)
        self._message: Any = None
        self._body: StreamReader | None = None

    def data_received(self, data: bytes) -> None:
        """Forward or scan once the body is complete."""
        messages, _, _ = self._requests.feed_data(data)
        if messages:
            self._message, self._body = messages[0]
        body = self._body
        if body is None or not body.is_eof():
            return
        self._body, content = None, body.read_nowait()
        if self._scans is None or self._message.method != "POST":
            self._forward(content)
        else:
            self._background.spawn(self._scan(self._scans, content))

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Nothing: reading is never paused, and the parser has no rest."""

    def _forward(self, content: bytes) -> None:
        if self.transport is not None:
            self._pool.send(request_bytes(self._message, content), self.transport)

    async def _scan(self, scans: ChatScans, content: bytes) -> None:
        context = scans.context(self._message.path)
        try:
            texts = scans.extract(self._message.path, content)
        except RequestError:
            return cast("asyncio.Transport", self.transport).close()
        outcome = await scans.scan(context, texts)
        if not outcome.blocked:
            self._forward(content)
        elif self.transport is not None:
            self.transport.write(scans.refusal(context, outcome))
        scans.record(context, outcome, texts)
        return None


def request_bytes(message: Any, content: bytes) -> bytes:
    """The request to the upstream."""
    fields = b"".join([b"%s: %s\r\n" % field for field in message.raw_headers if field[0].lower() not in HOP_NAMES])
    head = f"{message.method} {message.path} HTTP/1.1\r\nHost: {LOOPBACK}\r\n".encode()
    return b"%s%sContent-Length: %d\r\n\r\n%s" % (head, fields, len(content), content)


async def serve(port: int, to: int, scans: ChatScans | None = None) -> None:
    """Serve until the process ends."""
    loop, pool = asyncio.get_running_loop(), ConnectionPool(to)
    server = await loop.create_server(lambda: ClientConnection(loop, pool, scans), LOOPBACK, port, backlog=1024)
    await server.serve_forever()


async def main(kind: str, port: int, to: int) -> None:
    """Serve, with or without scans."""
    if kind == "raw":
        await serve(port, to)
    else:
        async with open_scans() as scans:
            await serve(port, to, scans)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
