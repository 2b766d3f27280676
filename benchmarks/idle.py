"""Memory and latency of the inline proxy while many connections are idle.

One real sidecar with the rules layer, in front of an upstream that starts streams and never continues them. Good
requests are timed alone, with N idle streams, with N half-open requests as well (half of them incomplete in the head,
half in the body), and after all have disconnected. Every good request must be answered with 200. Settings can be
given in the environment, such as SIDECAR__RESPONSES=block.

    python -m benchmarks.idle [--connections 1000] [--requests 1000] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from aiohttp import web

from benchmarks.proxy import ANSWER, free_port, wait_for

CHAT = {"model": "m", "messages": [{"role": "user", "content": "How far is the moon?"}]}
HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Le"
BEGUN = HALF + b'ngth: 4000\r\nContent-Type: application/json\r\n\r\n{"model": "' + b"m" * 1000
SETTLE_SECONDS = 1.5


async def answer(request: web.Request) -> web.StreamResponse:
    """Answers immediately and completely; a stream gets one event and nothing more."""
    if not (await request.json()).get("stream"):
        return web.json_response(ANSWER)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b"data: {}\n\n")
    await asyncio.Event().wait()
    return response


async def start_upstream(port: int) -> web.AppRunner:
    """The upstream, in this process."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    return runner


def start_sidecar(port: int, to: int, folder: Path, connections: int) -> subprocess.Popen[bytes]:
    """The sidecar in a separate process, with timeouts longer than the run."""
    settings = {
        "LISTEN__PORT": port,
        "ADMIN__PORT": 0,
        "UPSTREAM__URL": f"http://127.0.0.1:{to}",
        "UPSTREAM__CONNECTIONS": connections + 100,
        "UPSTREAM__IDLE_TIMEOUT": "600s",
        "LIMITS__HEADER_TIMEOUT": "600s",
        "LIMITS__BODY_TIMEOUT": "600s",
        "LAYERS__SEMANTIC__ENABLED": "false",
        "STORE__URL": f"sqlite:///{folder}/idle.db",
    }
    environment = {**os.environ, **{f"SIDECAR__{name}": str(value) for name, value in settings.items()}}
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "sidecar", "serve"]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def memory_mib(pid: int) -> float:
    """Resident memory of a process, from the kernel."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


class Run:
    """One run against one sidecar."""

    def __init__(self, session: aiohttp.ClientSession, base: str, pid: int, requests: int) -> None:
        self._session = session
        self._url = f"{base}/v1/chat/completions"
        self._pid = pid
        self._requests = requests
        self.rows: list[dict[str, float | str]] = []

    async def good(self, name: str) -> None:
        """Time good requests sequentially and record them with the memory of the sidecar."""
        taken = []
        for _ in range(self._requests):
            begun = time.perf_counter()
            async with self._session.post(self._url, json=CHAT) as reply:
                await reply.read()
                if reply.status != 200:
                    raise SystemExit(f"{name}: a good request got status {reply.status}")
            taken.append((time.perf_counter() - begun) * 1000)
        memory = memory_mib(self._pid)
        p99 = sorted(taken)[int(len(taken) * 0.99)]
        row = {"situation": name, "rss_mib": memory, "p50_ms": statistics.median(taken), "p99_ms": p99}
        self.rows.append({key: value if isinstance(value, str) else round(value, 2) for key, value in row.items()})

    async def idle_stream(self) -> aiohttp.ClientResponse:
        """A stream that has received its first event."""
        reply = await self._session.post(self._url, json=CHAT | {"stream": True})
        await reply.content.readline()
        return reply


async def measure(run: Run, connections: int, port: int) -> None:
    """All situations, in order."""
    await run.good("warm-up")
    await run.good("alone")
    streams = [await run.idle_stream() for _ in range(connections)]
    await run.good(f"{connections} idle streams")
    writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(connections)]
    for number, writer in enumerate(writers):
        writer.write((HALF, BEGUN)[number % 2])
    await asyncio.sleep(SETTLE_SECONDS)
    await run.good(f"and {connections} half-open requests")
    for stream in streams:
        stream.close()
    for writer in writers:
        writer.close()
    await asyncio.sleep(SETTLE_SECONDS)
    await run.good("after all have left")


async def main_async(connections: int, requests: int) -> list[dict[str, float | str]]:
    """Start all processes, measure, stop them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    port, to = free_port(), free_port()
    upstream = await start_upstream(to)
    with tempfile.TemporaryDirectory() as folder:
        sidecar = start_sidecar(port, to, Path(folder), connections)
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                await wait_for(session, f"http://127.0.0.1:{port}/health")
                run = Run(session, f"http://127.0.0.1:{port}", sidecar.pid, requests)
                await measure(run, connections, port)
        finally:
            sidecar.terminate()
            sidecar.wait(timeout=60)
    await upstream.cleanup()
    return run.rows[1:]


def main() -> None:
    """Arguments in, figures out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rows = asyncio.run(main_async(chosen.connections, chosen.requests))
    if chosen.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        figures = f"{row['rss_mib']:>8.1f} MiB   p50 {row['p50_ms']:>6.2f} ms   p99 {row['p99_ms']:>6.2f} ms"
        print(f"  {row['situation']:<28} {figures}")


if __name__ == "__main__":
    main()
