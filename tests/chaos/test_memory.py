"""Memory near its limit: floods of large bodies (slow, dense or packed), and their effect on good traffic.

`make test` uses a twentieth of the default sizes; `make chaos` uses the defaults with all layers, within the memory
limit of the Kubernetes manifests.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import random
import resource
from collections import Counter
from pathlib import Path

import aiohttp
from chaos.load import ROUNDS, SENTENCE, process_settings
from chaos.test_storms import answered, key_for
from chaos.world import ANSWER, ATTACK, World, audit, patiently, settings, text_of, world
from recording import recording, respond
from support import SidecarProcess

from sidecar.observability.metrics import BODY_BYTES, NO_ROOM

MIB = 2**20
BODY = 10 * MIB if ROUNDS > 1 else MIB // 2
BODIES = (384 if ROUNDS > 1 else 8) * MIB
FLOOD = 400 if ROUNDS > 1 else 80
SLACK = 64 * MIB
"""Allowance for memory that the flood leaves in the allocator, in sockets and in read-ahead buffers."""
VIRTUAL = 256 * MIB
"""Allowance for memory that is reserved and never touched: thread stacks, oversized buffers."""
KUBERNETES = 1024 * MIB
"""The limit in `k8s/`."""
PATIENCE = aiohttp.ClientTimeout(total=120)
"""Longer than anything in the sidecar takes."""


def head(length: int) -> bytes:
    """The head of a chat request."""
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


async def slow(port: int, size: int) -> asyncio.StreamWriter:
    """A client that sends all but the end of a body."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head(size) + b'{"messages": [{"role": "user", "content": "' + b"a" * (size - 1_000))
    return writer


async def test_slow_large_bodies_do_not_starve_small_ones(tmp_path: Path) -> None:
    """Slow bodies exhaust the budget, small bodies still pass, and one more large one gets Retry-After."""
    bounds = {"body_bytes": 2**16, "bodies": 2**20, "body_timeout": "60s"}
    refused = NO_ROOM.labels("body")
    async with recording(respond(ANSWER)) as upstream:
        configured = settings(tmp_path, upstream.url, limits=bounds)
        async with world(configured) as here:
            port, before = int(here.base.rpartition(":")[2]), refused._value.get()
            slow_ones = [await slow(port, 2**16) for _ in range(20)]
            await patiently(lambda: refused._value.get() - before >= 10)
            replies = [await (here.inline() if n % 2 else here.scan()) for n in range(40)]
            assert {reply.status for reply in replies} == {200}
            large = "word " * 12_000
            inline, scan = await here.inline(large), await here.scan(large)
            assert (inline.status, inline.json["error"]["code"]) == (503, "scanner_unavailable")
            assert (scan.status, list(scan.json)) == (429, ["detail"])
            assert inline.headers["Retry-After"] == scan.headers["Retry-After"] == "1"
            for writer in slow_ones:
                writer.close()
            await patiently(lambda: BODY_BYTES._value.get() == 0)
            assert (await here.inline(large)).status == (await here.scan(large)).status == 200
        assert await audit(configured.store.url, upstream) == []


def flood_of(number: int) -> tuple[bytes, dict[str, str]]:
    """A large body: text, text of many languages, hidden text, many values, or packed; every tenth an attack."""
    text = ATTACK if number % 10 == 0 else SENTENCE
    size = BODY - 1_000
    if number % 5 == 0:
        return _chat(f"{number} {text} " + "lorem ipsum " * (size // 12)), {}
    if number % 5 == 1:
        return _chat(f"{number} {text} " + "где 中文 \U0001f600 " * (size // 21), ascii_only=False), {}
    if number % 5 == 2:
        return _chat(text)[:-1] + b', "x": [' + b"[]," * (size // 3) + b"0]}", {}
    if number % 5 == 3:
        coded = base64.b64encode(random.Random(number).randbytes(300)).decode()  # noqa: S311 - any bytes do
        return _chat(f"{number} {text} " + f"{coded} %69%67 &#105; l33t " * (size // 425)), {}
    return gzip.compress(_chat(f"{number} {text} " + "a " * (size // 2)), 1), {"Content-Encoding": "gzip"}


def _chat(text: str, *, ascii_only: bool = True) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=ascii_only).encode()


def memory(pid: int, field: str) -> int:
    """A field of /proc/PID/status, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def limit(pid: int, headroom: int) -> None:
    """Limit the process to its current data memory plus `headroom`, used or not."""
    most = memory(pid, "VmData") + headroom
    resource.prlimit(pid, resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))


async def flooded(running: SidecarProcess, session: aiohttp.ClientSession) -> Counter[int]:
    """Send the flood at once; returns the number of responses by status; 0: disconnected, possibly while sending."""
    bodies = [flood_of(number) for number in range(10)]
    met = Counter[int]()

    async def send(number: int) -> None:
        body, headers = bodies[number % 10]
        sent = {"Content-Type": "application/json", **headers}
        url = f"{running.base}/v1/chat/completions"
        try:
            async with session.post(url, data=io.BytesIO(body), headers=sent, timeout=PATIENCE) as answer:
                met[answer.status] += 1
        except aiohttp.ServerTimeoutError:  # a timeout is no disconnect
            raise
        except aiohttp.ClientError:
            met[0] += 1

    await asyncio.gather(*(send(number) for number in range(FLOOD)))
    return met


async def test_a_flood_of_large_bodies_under_a_memory_limit(tmp_path: Path) -> None:
    """With ten times the budget the process stays within its limit, answers all small requests, and recovers."""
    bounds = {"body_bytes": BODY, "bodies": BODIES, "rate": "100000/second", "burst": 100_000}
    async with recording(respond(ANSWER)) as upstream:
        values = process_settings(tmp_path, upstream.url, limits=bounds, scan={"deadline": "30s"})
        if ROUNDS > 1:
            del values["layers"], values["policies"]
        running = SidecarProcess(tmp_path, values)
        await asyncio.to_thread(running.start)
        assert running.process is not None
        pid = running.process.pid
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            here = World(running.base, session, await key_for(f"sqlite:///{tmp_path}/sidecar.db"))
            assert (await here.inline()).status == 200
            before = memory(pid, "VmRSS")
            if ROUNDS == 1:
                limit(pid, BODIES + SLACK + VIRTUAL)
            flood = asyncio.ensure_future(flooded(running, session))
            small = Counter[int]()
            while not flood.done():
                small[(await here.inline()).status] += 1
            met = await flood
            assert set(met) <= {0, 200, 400, 413, 503}
            assert met[503] > 0
            assert set(small) == {200}
            assert memory(pid, "VmHWM") < (KUBERNETES if ROUNDS > 1 else before + BODIES + SLACK)
            assert (await here.inline(ATTACK)).status == 400
        assert await asyncio.to_thread(running.stop) == 0
        assert not [body for body in upstream.bodies if ATTACK in text_of(body)]


async def test_out_of_memory_and_back(tmp_path: Path) -> None:
    """With almost no memory left, large bodies get 503 or no response and nothing crashes; with more, it recovers."""
    async with recording(respond(ANSWER)) as upstream:
        running = SidecarProcess(tmp_path, process_settings(tmp_path, upstream.url))
        await asyncio.to_thread(running.start)
        assert running.process is not None
        pid = running.process.pid
        async with aiohttp.ClientSession() as session:
            here = World(running.base, session, await key_for(f"sqlite:///{tmp_path}/sidecar.db"))
            assert (await here.inline()).status == 200
            limit(pid, 4 * MIB)
            met = await flooded(running, session)
            assert set(met) <= {0, 200, 400, 413, 503}
            assert met[503] > 0
            assert met[200] + met[400] + met[413] < FLOOD / 2  # there was no memory for responses
            resource.prlimit(pid, resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await patiently(lambda: answered(here), 30)
            assert (await here.inline(ATTACK)).status == 400
        assert await asyncio.to_thread(running.stop) == 0
        assert not [body for body in upstream.bodies if ATTACK in text_of(body)]
