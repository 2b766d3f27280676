"""Wraps a server that speaks over standard input and output: one message a line, in both directions.

The wrapper is what the client starts; it starts the server. Messages of one direction are scanned in their order, so a
notification never overtakes a result. A server that reads nothing is still read: answers to its refused requests wait
in a queue. Standard error is the server's own. When the client closes its end the server is asked to end: first by the
end of its input, then by SIGTERM, then by SIGKILL (`stop`).
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from sidecar.errors import BodyError, ConfigError
from sidecar.mcp.session import McpScanner, Session
from sidecar.scan.service import ScanContext
from sidecar.util import logs
from sidecar.util.tasks import Background

GRACE_SECONDS = 5.0
"""After each request to end, before the next, stronger one."""
_CHUNK = 64 * 1024
MAX_CHUNKS = 16
"""Chunks of standard input that are read ahead."""
MAX_REPLIES = 1_000
"""Answers that wait until the server reads them; any more are dropped."""
_log = logs.get("mcp")


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end. `whole`: False for the beginning of one that is too long, whose rest is dropped."""

    content: bytes
    whole: bool = True


async def read_lines(reader: Input, max_bytes: int) -> AsyncIterator[Line]:
    """The lines of a stream that are not empty; the last one may lack its end."""
    buffer, skipping = bytearray(), False
    while chunk := await reader.read(_CHUNK):
        *ended, beginning = chunk.split(b"\n")
        for part in ended:
            buffer += part
            if not skipping and buffer.strip():
                yield _line(buffer, max_bytes)
            buffer.clear()
            skipping = False
        if not skipping:
            buffer += beginning
        if len(buffer) > max_bytes:
            yield _line(buffer, max_bytes)
            buffer.clear()
            skipping = True
    if buffer.strip():
        yield _line(buffer, max_bytes)


def _line(buffer: bytearray, max_bytes: int) -> Line:
    return Line(bytes(buffer[:max_bytes]), len(buffer) <= max_bytes)


async def start(command: Sequence[str]) -> Process:
    """Start the server. Raises `ConfigError` if there is no such program."""
    try:
        return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    except OSError as error:
        raise ConfigError("sidecar mcp", [f"{command[0]!r} cannot be started: {error.strerror}"]) from None


class Input(Protocol):
    """What a client sends: a pipe, or a stand-in for one."""

    async def read(self, n: int = -1, /) -> bytes:
        """Some bytes, none at the end."""
        ...


class StandardInput:
    """Standard input, read by a thread that nobody waits for: it may be a pipe, a file, a terminal or closed."""

    def __init__(self) -> None:
        self._loop, self._room = asyncio.get_running_loop(), threading.Semaphore(MAX_CHUNKS)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        threading.Thread(target=self._read_all, daemon=True).start()

    async def read(self, _n: int = -1, /) -> bytes:
        """The next chunk."""
        chunk = await self._chunks.get()
        self._room.release()
        return chunk

    def _read_all(self) -> None:
        chunk = b"-"
        while chunk:
            self._room.acquire()  # a client that is faster than the scan has to wait
            try:
                chunk = os.read(0, _CHUNK)
            except OSError:
                chunk = b""
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)


class Output:
    """Standard output, written by a thread that nobody waits for at exit: its reader may be slow or read nothing."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._write_all, daemon=True).start()

    async def write(self, content: bytes) -> None:
        """Write all of it. Raises `OSError` if nobody reads any more."""
        done = self._loop.create_future()
        self._jobs.put((content, done))
        await done

    def _write_all(self) -> None:
        while True:
            content, done = self._jobs.get()
            error = _write(content)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_settle, done, error)


def _write(content: bytes) -> OSError | None:
    rest = memoryview(content)
    try:
        while rest:  # not through sys.stdout, whose lock a blocked thread would hold at exit
            rest = rest[os.write(1, rest) :]
    except OSError as error:
        return error
    return None


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class Wrapper:
    """Relays between the client at `reader` and `output` and a started server."""

    def __init__(self, scanner: McpScanner, server: Process, reader: Input, output: Output) -> None:
        self._session = Session(scanner)
        self._server, self._reader, self._output = server, reader, output
        self._max_bytes = scanner.settings.limits.body_bytes
        self._context = ScanContext("", "mcp", f"/mcp/{scanner.server}")
        self._writing = {True: asyncio.Lock(), False: asyncio.Lock()}
        self._server_name = scanner.server
        self._replies: asyncio.Queue[bytes] = asyncio.Queue(MAX_REPLIES)

    async def run(self) -> None:
        """Relay until one side ends."""
        tasks = Background()
        to_server, to_client = tasks.spawn(self._to_server()), tasks.spawn(self._to_client())
        tasks.spawn(self._answer_server())
        try:
            await asyncio.wait({to_server, to_client}, return_when=asyncio.FIRST_COMPLETED)
            if not to_client.done():
                await self._end(to_client)
        finally:
            await tasks.close()

    async def _to_server(self) -> None:
        with suppress(OSError):
            async for line in read_lines(self._reader, self._max_bytes):
                await self._relay(line, from_server=False)
        _end_input(self._server)

    async def _to_client(self) -> None:
        assert self._server.stdout is not None  # noqa: S101 - a pipe was asked for
        with suppress(OSError):
            async for line in read_lines(self._server.stdout, self._max_bytes):
                await self._relay(line, from_server=True)

    async def _relay(self, line: Line, *, from_server: bool) -> None:
        if line.whole:
            inspection = await self._session.inspect(line.content, self._context, from_server=from_server)
        else:
            error = BodyError("oversize", f"The message is larger than {self._max_bytes} bytes (limits.body_bytes).")
            # Never passed, whatever the policy: the rest of the line is gone.
            inspection = self._session.refuse_unread(line.content, error, self._context, from_server=from_server)
        if inspection.forward is not None:
            await self._write(inspection.forward, to_server=not from_server)
        if inspection.reply is not None:
            await self._reply(inspection.reply, to_server=from_server)

    async def _reply(self, content: bytes, *, to_server: bool) -> None:
        if not to_server:
            return await self._write(content, to_server=False)
        try:
            self._replies.put_nowait(content)
        except asyncio.QueueFull:
            _log.warning("mcp_reply_dropped", server=self._server_name)
        return None

    async def _answer_server(self) -> None:
        with suppress(OSError):
            while True:
                await self._write(await self._replies.get(), to_server=True)

    async def _write(self, content: bytes, *, to_server: bool) -> None:
        async with self._writing[to_server]:
            if to_server and self._server.stdin is not None:
                self._server.stdin.write(content + b"\n")
                await self._server.stdin.drain()
            elif not to_server:
                await self._output.write(content + b"\n")

    async def _end(self, to_client: asyncio.Task[None]) -> None:
        """The client has closed its end: pass on what the server still says, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await asyncio.shield(to_client)


def _end_input(server: Process) -> None:
    if server.stdin is not None:
        server.stdin.close()


async def stop(server: Process) -> int:
    """Wait for the server to end, and make it if it does not; returns its exit code, as a shell would give it."""
    _end_input(server)
    for signal in (None, server.terminate, server.kill):
        with suppress(ProcessLookupError):
            if signal is not None:
                _log.warning("mcp_server_stopped", signal=signal.__name__)
                signal()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await server.wait()
                break
    code = server.returncode or 0
    return code if code >= 0 else 128 - code  # -15: ended by SIGTERM
