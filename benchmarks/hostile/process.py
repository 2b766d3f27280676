"""A sidecar in a process of its own, in front of an upstream that answers at once, and raw requests to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from benchmarks.proxy import ANSWER, free_port, wait_for

SECONDS = 180.0
"""Timeout of one request: longer than any deadline of the sidecar for these sizes."""
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[^\r]*\r\n(?:[^\r]+\r\n)*\r\n")


@dataclass(frozen=True, slots=True)
class Reply:
    """The statuses of a connection's answers, and seconds until it was closed; no status: closed without an answer."""

    statuses: tuple[int, ...]
    seconds: float


def new_key(folder: str | Path, environment: Mapping[str, str], name: str) -> str:
    """A key of the sidecar with this environment, whose rate is no limit here."""
    command = [sys.executable, "-m", "sidecar", "keys", "create", name, "--json", "--rate", "100000/second"]
    created = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return str(json.loads(created.stdout)["key"])


@dataclass(frozen=True, slots=True)
class Running:
    """A running sidecar."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    environment: Mapping[str, str]

    @property
    def base(self) -> str:
        """Base URL of the data port."""
        return f"http://127.0.0.1:{self.port}"

    async def new_key(self, name: str) -> str:
        """A new key."""
        return await asyncio.to_thread(new_key, self.folder, self.environment, name)

    def processor_seconds(self) -> float:
        """Processor time of all its threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(path.read_text("ascii").split()[0]) for path in tasks) / 1e9


async def send(port: int, raw: bytes) -> Reply:
    """Send one raw request, or several, and read until the server closes."""
    started, received = time.perf_counter(), b""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(raw)
                while chunk := await reader.read(65536):
                    received += chunk
            finally:
                writer.close()
    statuses = tuple(int(status) for status in _STATUS.findall(received))
    return Reply(statuses, time.perf_counter() - started)


async def _answer(request: web.Request) -> web.StreamResponse:
    """Answers a chat at once; reads the messages of a websocket until it closes."""
    if request.headers.get("Upgrade", "").lower() == "websocket":
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket
    await request.read()
    return web.json_response(ANSWER)


@asynccontextmanager
async def upstream() -> AsyncIterator[str]:
    """The upstream, on this event loop; yields its URL."""
    app, port = web.Application(client_max_size=2**30), free_port()
    app.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, max_line_size=2**17, max_field_size=2**17)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def _start(command: Sequence[str], folder: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with Path(folder, "output").open("wb") as output:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)


@asynccontextmanager
async def running(
    settings: Mapping[str, object], prefix: Sequence[str] = (), arguments: Sequence[str] = ()
) -> AsyncIterator[Running]:
    """A sidecar with these settings (`SECTION__NAME`) besides its defaults, started by `prefix` and its command."""
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        ports = {"LISTEN__PORT": port, "ADMIN__PORT": admin, "STORE__URL": f"sqlite:///{folder}/sidecar.db"}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SIDECAR__")}
        values = {f"SIDECAR__{name}": str(value) for name, value in {**ports, **settings}.items()}
        environment = {**inherited, **values, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
        process = _start([*prefix, sys.executable, "-m", "sidecar", "serve", *arguments], folder, environment)
        try:
            async with aiohttp.ClientSession() as session:
                await wait_for(session, f"http://127.0.0.1:{admin}/ready")
            yield Running(process, port, Path(folder), environment)
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, 60)
