"""A recording upstream: a real server on loopback that records every byte, with scripted, possibly faulty responses.

It uses raw sockets, so that no library normalizes the bytes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Received:
    """One request as received on the wire; the body without its chunked framing."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        """The request line."""
        return self.head.split(b"\r\n")[0].decode("latin-1")

    @property
    def target(self) -> str:
        """Path and query as sent."""
        return self.line.split(" ")[1]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Header fields in order, names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines if line)
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    def header(self, name: str) -> str | None:
        """The first value of a field."""
        return next((value for key, value in self.fields if key == name.lower()), None)

    def json(self) -> dict:
        """The body as JSON."""
        return json.loads(self.body)


Script = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Recording:
    """A recorder: the requests received so far, and the script of the next response."""

    script: Script
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the peer disconnects during a response."""
    port: int = 0
    open: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = field(default_factory=dict)
    server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of all requests."""
        return [received.body for received in self.requests]

    def refuse(self) -> None:
        """Stop listening, and abort open connections."""
        if self.server:
            self.server.close()
        for writer in dict(self.open).values():
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self.open[asyncio.current_task()] = writer
        try:
            while (received := await _read(reader)) is not None:
                self.requests.append(received)
                await self.answer(received, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.disconnected.set()
        finally:
            del self.open[asyncio.current_task()]
            writer.close()

    async def answer(self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run the script, and watch for the peer to disconnect."""
        answering = asyncio.ensure_future(self.script(received, writer))
        watching = asyncio.ensure_future(reader.read(1))
        await asyncio.wait((answering, watching), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            self.disconnected.set()
            answering.cancel()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        results = await asyncio.gather(answering, return_exceptions=True)
        if isinstance(results[0], BaseException):
            raise ConnectionError


@asynccontextmanager
async def recording(script: Script | None = None) -> AsyncIterator[Recording]:
    """A running recorder. Without a script it responds to every request with an empty JSON object."""
    recorder = Recording(script or respond(b"{}"))
    recorder.server = server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0, limit=2**24)
    recorder.port = server.sockets[0].getsockname()[1]
    try:
        yield recorder
    finally:
        still = dict(recorder.open)
        recorder.refuse()
        await asyncio.gather(*filter(None, still), return_exceptions=True)
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    received = Received(head[:-4], b"")
    if (received.header("transfer-encoding") or "").lower() == "chunked":
        return Received(head[:-4], await _chunked(reader))
    return Received(head[:-4], await reader.readexactly(int(received.header("content-length") or 0)))


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(parts)


def head(status: str = "200 OK", content_type: str = "application/json", *fields: str) -> bytes:
    """Status line and header fields of a response."""
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *fields, "", ""]).encode("latin-1")


def respond(body: bytes, status: str = "200 OK", content_type: str = "application/json", *fields: str) -> Script:
    """A complete response with a content length; for HEAD without the body."""

    async def script(received: Received, writer: asyncio.StreamWriter) -> None:
        head_bytes = head(status, content_type, f"Content-Length: {len(body)}", *fields)
        writer.write(head_bytes if received.line.startswith("HEAD ") else head_bytes + body)
        await writer.drain()

    return script


def stream(parts: Sequence[bytes], *, pause: float = 0.0, end: str = "clean", content_type: str = "") -> Script:
    """Server-sent events, a chunk per part; then a clean end, a `cut` (FIN), a `reset` (RST), or a `stall`."""

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", content_type or "text/event-stream", "Transfer-Encoding: chunked"))
        for part in parts:
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
            await asyncio.sleep(pause)
        await _end(writer, end)

    return script


def raw(data: bytes, *, end: str = "cut") -> Script:
    """Arbitrary bytes as a response."""

    async def script(_received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await _end(writer, end)

    return script


async def _end(writer: asyncio.StreamWriter, end: str) -> None:
    if end == "clean":
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    elif end == "stall":
        await asyncio.sleep(3600)
    elif end == "reset":
        raw_socket = writer.get_extra_info("socket")
        raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()
