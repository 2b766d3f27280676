"""A fault-injecting TCP proxy on loopback between two real processes.

A fault can be `set` at any time: it applies to open and new connections. Bytes are counted from that time.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["none", "refuse", "reset", "cut", "stall", "garbage", "half_open", "drip", "latency"]
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Fault:
    """A fault that begins `after` so many bytes in one direction, `down` (responses) or `up` (requests).

    refuse: connections are refused. reset: RST. cut: FIN. stall: no more data, the connection stays open. garbage:
    random bytes instead of a response. half_open: the peer has vanished, no data in either direction. drip: one byte
    at a time, `pause` seconds apart. latency: `pause` seconds before each chunk.
    """

    kind: Kind = "none"
    after: int = 0
    pause: float = 0.0
    way: Literal["down", "up"] = "down"


NO_FAULT = Fault()
REFUSE = Fault("refuse")
HALF_OPEN = Fault("half_open")
GARBAGE = Fault("garbage")


@dataclass(eq=False)
class _Pair:
    """One connection: both ends, and the bytes passed in each direction since the fault was set."""

    ends: dict[str, asyncio.StreamWriter]
    counts: dict[str, int] = field(default_factory=lambda: {"up": 0, "down": 0})

    def reset(self) -> None:
        """End both connections with RST."""
        for writer in self.ends.values():
            raw_socket = writer.get_extra_info("socket")
            with suppress(OSError):
                raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class _Ended(Exception):
    """The fault has ended this connection."""


class Link:
    """Listens on `port` and forwards to `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.connections = 0
        self.fault = NO_FAULT
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._noise = random.Random(7)  # noqa: S311 - the same noise in every run

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def set(self, fault: Fault) -> None:
        """Apply a fault from now on. `refuse` also resets open connections."""
        self.fault = fault
        for pair in self._pairs:
            pair.counts = {"up": 0, "down": 0}
        if fault.kind == "refuse":
            await self.close()
        elif self._server is None:
            await self.listen()

    async def listen(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more connections, and reset those that are open."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for pair in set(self._pairs):
            pair.reset()
        for task in set(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._join(reader, writer)
        except asyncio.CancelledError:
            pass  # the link is closing: a cancelled handler would be logged as an error
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = _Pair({"down": writer})
        self._pairs.add(pair)
        try:
            source, pair.ends["up"] = await asyncio.open_connection("127.0.0.1", self.target)
            pumps = {asyncio.ensure_future(self._pump(pair, reader, "up"))}
            pumps.add(asyncio.ensure_future(self._pump(pair, source, "down")))
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pair.reset()
        finally:
            self._pairs.discard(pair)
            if "up" in pair.ends:
                pair.ends["up"].close()

    async def _pump(self, pair: _Pair, reader: asyncio.StreamReader, way: str) -> None:
        """Forward one direction until it ends."""
        with suppress(OSError, _Ended):
            while data := await reader.read(65536):
                await self._pass(pair, data, way)

    async def _pass(self, pair: _Pair, data: bytes, way: str) -> None:
        fault = self.fault
        if fault.kind == "half_open":
            return
        if fault.kind == "garbage":
            if way == "up":
                pair.ends["down"].write(self._noise.randbytes(4096))
                await pair.ends["down"].drain()
            return
        if fault.kind in {"reset", "cut", "stall"} and way == fault.way:
            await self._stop(pair, data, fault)
            return
        await self._send(pair, data, way, fault if way == fault.way else NO_FAULT)

    async def _stop(self, pair: _Pair, data: bytes, fault: Fault) -> None:
        """Forward the remaining bytes before the fault, then apply it."""
        due = data[: max(0, fault.after - pair.counts[fault.way])]
        await self._send(pair, due, fault.way, NO_FAULT)
        if pair.counts[fault.way] < fault.after:
            return
        if fault.kind == "reset":
            pair.reset()
        if fault.kind != "stall":
            raise _Ended

    async def _send(self, pair: _Pair, data: bytes, way: str, fault: Fault) -> None:
        writer = pair.ends[way]
        step = 1 if fault.kind == "drip" else max(1, len(data))
        for start in range(0, len(data), step):
            await asyncio.sleep(fault.pause)
            writer.write(data[start : start + step])
            await writer.drain()
        pair.counts[way] += len(data)


@asynccontextmanager
async def link(target: int) -> AsyncIterator[Link]:
    """A running link to this port."""
    opened = Link(target)
    await opened.listen()
    try:
        yield opened
    finally:
        await opened.close()
