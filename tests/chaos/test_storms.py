"""Stress: rolling restarts, reloads, a full disk, no descriptors, floods, slow clients, ten times the capacity."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from chaos.load import ROUNDS, SENTENCE, Load, process_settings, stored
from chaos.world import ANSWER, ATTACK, PATIENT, World, audit, patiently, settings, text_of, world
from prometheus_client.parser import text_string_to_metric_families as parse
from recording import Received, recording, respond
from support import SidecarProcess

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth
from sidecar.observability.metrics import LOG_DROPPED
from sidecar.storage import Store

HALF = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
)
CHAT = {"model": "m", "messages": [{"role": "user", "content": SENTENCE}]}
pytestmark = pytest.mark.timeout(3600)


async def key_for(url: str) -> str:
    """Create a key directly in the store."""
    store = await Store.open(url)
    _, value = await KeyRing(store, Auth()).create("storm")
    await store.close()
    return value


async def test_rolling_restarts_lose_no_request(tmp_path: Path) -> None:
    """Two replicas, restarted in turn under load: each request gets a verdict from one of them.

    The client acts as a load balancer: a replica that is not ready gets no new connections, and a request goes to the
    other replica only if its connection was refused or closed before any response.
    """
    url = f"sqlite:///{tmp_path}/shared.db"
    async with recording(respond(ANSWER)) as upstream:
        replicas = []
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            process = SidecarProcess(folder, process_settings(folder, upstream.url, store={"url": url}))
            replicas.append(await asyncio.to_thread(process.start))
        value, counts = await key_for(url), Counter[int]()
        stop = asyncio.Event()

        async def client(number: int) -> None:
            connector = aiohttp.TCPConnector(force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                while not stop.is_set():
                    number += 1
                    counts[await balanced(session, replicas, number, value)] += 1
                    await asyncio.sleep(0.05)

        tasks = [asyncio.ensure_future(client(n)) for n in range(4)]
        for _ in range(ROUNDS):
            for replica in replicas:
                assert await asyncio.to_thread(replica.stop) == 0
                await asyncio.to_thread(replica.start)
        stop.set()
        await asyncio.gather(*tasks)
        for replica in replicas:
            assert await asyncio.to_thread(replica.stop) == 0
        assert set(counts) == {200}
        assert await audit(url, upstream) == []


async def balanced(session: aiohttp.ClientSession, replicas: list[SidecarProcess], number: int, key: str) -> int:
    """The status from the first replica that takes the request; 0 if none does."""
    for attempt in range(4):
        base = replicas[(number + attempt) % 2].base
        with suppress(aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            headers = {"X-API-Key": key}
            body = {"prompt": f"{SENTENCE} {number}"}
            async with session.post(f"{base}/api/v1/prompt/scan", json=body, headers=headers) as answer:
                await answer.read()
                return answer.status
    return 0


async def test_a_revocation_reaches_every_replica(tmp_path: Path) -> None:
    """No replica admits a request that starts later than `auth.cache` (default 5 s) after the revocation."""
    url, believed = f"sqlite:///{tmp_path}/shared.db", 5.0 if ROUNDS > 1 else 1.0
    ring = KeyRing(await Store.open(url), Auth())
    created = [await ring.create(f"key {number}") for number in range(min(ROUNDS, 5))]
    async with recording(respond(ANSWER)) as upstream, aiohttp.ClientSession() as session:
        replicas = []
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            values = process_settings(folder, upstream.url, store={"url": url}, auth={"cache": f"{believed}s"})
            replicas.append(await asyncio.to_thread(SidecarProcess(folder, values).start))
        worlds = [World(replica.base, session, value) for _, value in created for replica in replicas]
        assert {(await here.scan()).status for here in worlds} == {200}
        admissions = [asyncio.ensure_future(last_admission(here)) for here in worlds]
        revoked = []
        for key, _ in created:
            await ring.revoke(key.id)
            revoked += [time.monotonic()] * len(replicas)
        late = [last - then for last, then in zip(await asyncio.gather(*admissions), revoked, strict=True)]
        assert max(late) <= believed
    await ring._keys._database.close()


async def last_admission(here: World) -> float:
    """Start of the last admitted request."""
    last = time.monotonic()
    while True:
        begun = time.monotonic()
        if (await here.scan()).status == 401:
            return last
        last = begun
        await asyncio.sleep(0.1)


async def test_requests_in_flight_survive_sigterm(tmp_path: Path) -> None:
    """Requests sent before SIGTERM are answered within the drain timeout and recorded; the process exits with 0."""
    begun = asyncio.Event()

    async def slow(received: Received, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await asyncio.sleep(1)
        await respond(ANSWER)(received, writer)

    async with recording(slow) as upstream, aiohttp.ClientSession() as session:
        running = SidecarProcess(tmp_path, process_settings(tmp_path, upstream.url))
        await asyncio.to_thread(running.start)
        requests = [asyncio.ensure_future(World(running.base, session).inline()) for _ in range(8)]
        await patiently(lambda: len(upstream.requests) == 8)
        assert await asyncio.to_thread(running.stop) == 0
        replies = await asyncio.gather(*requests)
    assert {reply.status for reply in replies} == {200}
    answered = {reply.headers["x-sidecar-decision"] for reply in replies}
    assert answered <= await stored(f"sqlite:///{tmp_path}/sidecar.db")


async def test_out_of_descriptors_and_back(tmp_path: Path) -> None:
    """A flood uses every descriptor: nothing is forwarded unscanned, nothing crashes, and the sidecar recovers."""
    async with recording(respond(ANSWER)) as upstream, aiohttp.ClientSession() as session:
        running = SidecarProcess(tmp_path, process_settings(tmp_path, upstream.url))
        await asyncio.to_thread(running.start)
        assert running.process is not None
        pid = running.process.pid
        here = World(running.base, session, await key_for(f"sqlite:///{tmp_path}/sidecar.db"))
        assert (await here.inline()).status == 200
        used = descriptors(pid)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))
        flood = await opened(running.port, 60)
        assert running.process.poll() is None
        met = Counter[int]()
        for number in range(6):
            with suppress(aiohttp.ClientError, TimeoutError):
                async with asyncio.timeout(2):
                    met[(await here.inline(ATTACK if number % 2 else SENTENCE)).status] += 1
        assert set(met) <= {200, 400, 502, 503}
        assert not await ready(session, running)
        for writer in flood:
            writer.transport.abort()
        await patiently(lambda: answered(here), 30)
        assert (await here.inline(ATTACK)).status == 400
        assert await asyncio.to_thread(running.stop) == 0
        assert not [body for body in upstream.bodies if ATTACK in text_of(body)]


def descriptors(pid: int) -> int:
    """Number of open descriptors."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def ready(session: aiohttp.ClientSession, running: SidecarProcess) -> bool:
    """The result of a readiness probe."""
    try:
        async with session.get(f"{running.admin}/ready", timeout=aiohttp.ClientTimeout(total=1)) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def opened(port: int, count: int, sent: bytes = HALF) -> list[asyncio.StreamWriter]:
    """Connections that have sent this and nothing more, at most this many.

    Some kernels refuse or reset a connection that a process without descriptors cannot accept; others keep it waiting.
    """
    writers = []
    for _ in range(count):
        with suppress(ConnectionRefusedError, ConnectionResetError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            writers.append(writer)
    return writers


async def answered(here: World) -> bool:
    """Whether both endpoints work."""
    try:
        async with asyncio.timeout(3):
            return (await here.inline()).status == (await here.scan()).status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def test_slow_clients_and_half_open_sockets_are_let_go(tmp_path: Path) -> None:
    """Clients that never finish get 408 or are closed at their timeout; good requests pass meanwhile."""
    times = {"header_timeout": "1s", "body_timeout": "1s"}
    async with recording(respond(ANSWER)) as upstream:
        configured = settings(tmp_path, upstream.url, limits=times)
        async with world(configured) as here:
            port = int(here.base.rpartition(":")[2])
            slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
            for number, (_, writer) in enumerate(slow):
                writer.write((HALF, HALF[:40], b"")[number % 3])
            assert {(await here.inline()).status for _ in range(20)} == {200}
            async with asyncio.timeout(15):
                ended = await asyncio.gather(*(reader.read() for reader, _ in slow))
            for _, writer in slow:
                writer.close()
            assert all(b" 408 " in answer for answer in ended[::3])
        assert await audit(configured.store.url, upstream) == []


async def test_ten_times_its_capacity(tmp_path: Path) -> None:
    """Every response is a verdict or a prompt 503/429 with Retry-After; nothing is unscanned; then it recovers."""
    bounds = {"concurrency": 2, "queue": 4}
    async with recording(respond(ANSWER)) as upstream:
        configured = settings(tmp_path, upstream.url, scan=bounds)
        async with world(configured) as here:
            calls = [here.inline(ATTACK if n % 5 == 0 else SENTENCE) if n % 2 else here.scan() for n in range(60)]
            replies = await asyncio.gather(*calls)
            assert {reply.status for reply in replies} <= {200, 400, 429, 503}
            refused = [reply for reply in replies if reply.status in {429, 503}]
            assert all("Retry-After" in reply.headers for reply in refused)
            assert (await here.inline()).status == 200
        assert await audit(configured.store.url, upstream) == []


def mounted(folder: Path, size: str) -> bool:
    """Mount a small file system on the folder; False without the permission."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0


@asynccontextmanager
async def small_disk(folder: Path, size: str) -> AsyncIterator[Path]:
    """A file system of this size; the test is skipped without the permission."""
    disk = folder / "disk"
    disk.mkdir()
    if not mounted(disk, size):
        pytest.skip("mounting a small file system takes root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # noqa: ASYNC221 - takes no time


def filled(disk: Path) -> Path:
    """A file that takes all that is left of the disk."""
    filler = disk / "filler"
    with suppress(OSError):
        filler.write_bytes(b"x" * 2**22)
    return filler


async def store_up(session: aiohttp.ClientSession, running: SidecarProcess) -> float:
    """The gauge of the store, as Prometheus scrapes it."""
    async with session.get(f"{running.admin}/metrics") as response:
        families = parse(await response.text())
    return next(
        sample.value
        for family in families
        for sample in family.samples
        if (sample.name, sample.labels.get("dependency")) == ("sidecar_dependency_up", "store")
    )


async def test_the_store_is_down_for_as_long_as_the_disk_is_full(tmp_path: Path) -> None:
    """Keys are read all the time, which works; the gauge is 0 at every scrape until rows can be written again."""
    async with small_disk(tmp_path, "1m") as disk, aiohttp.ClientSession() as session:
        store = {"url": f"sqlite:///{disk}/sidecar.db", "flush": 0.02}
        running = SidecarProcess(tmp_path, process_settings(tmp_path, "echo://", store=store))
        await asyncio.to_thread(running.start)
        first, *unread = [World(running.base, session, await key_for(store["url"])) for _ in range(31)]

        async def is_down() -> bool:
            assert (await first.scan()).status == 200
            return await store_up(session, running) == 0

        async def is_up() -> bool:
            return await store_up(session, running) == 1

        assert not await is_down()
        filler, gauges = filled(disk), set()
        await patiently(is_down, 30)
        for here in unread:  # each key is looked up
            assert (await here.scan()).status == 200
            gauges.add(await store_up(session, running))
            await asyncio.sleep(0.1)
        assert gauges == {0.0}
        filler.unlink()
        await patiently(is_up, 30)
        assert await asyncio.to_thread(running.stop) == 0


async def test_a_full_disk_under_the_store(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Traffic continues while no row can be written; queued rows are written later; no prompt is logged."""
    async with small_disk(tmp_path, "3m") as disk, recording(respond(ANSWER)) as upstream:
        store = {"url": f"sqlite:///{disk}/sidecar.db", "flush": 0.02}
        configured = settings(tmp_path, upstream.url, store=store, upstream=PATIENT)
        async with world(configured) as here:
            await here.inline()
            dropped = LOG_DROPPED._value.get()
            filler = filled(disk)
            load = Load(here, pause=0.002)
            async with load.running():
                await load.more(200)
                filler.unlink()
                await load.more(20)
            assert set(load.statuses()) == {200, 400}
        assert LOG_DROPPED._value.get() == dropped
        assert load.decisions - await stored(configured.store.url) == set()
        output = "".join(capfd.readouterr())
        assert "decision_made" in output
        assert not [text for text in (ATTACK, SENTENCE) if text in output]
        assert await audit(configured.store.url, upstream) == []


async def test_a_storm_of_reloads_half_of_them_broken(tmp_path: Path) -> None:
    """Settings and policies are rewritten under load, every second time invalid: the last valid ones stay in use."""
    async with recording(respond(ANSWER)) as upstream, aiohttp.ClientSession() as session:
        running = SidecarProcess(tmp_path, process_settings(tmp_path, upstream.url))
        await asyncio.to_thread(running.start)
        assert running.process is not None
        good = (tmp_path / "policy.yaml").read_text("utf-8")
        load = Load(World(running.base, session, await key_for(f"sqlite:///{tmp_path}/sidecar.db")))
        async with load.running():
            for number in range(10 * ROUNDS):
                broken = ("rules: [", good.replace("0.9", "7"), good[: len(good) // 2])[number % 3]
                (tmp_path / "policy.yaml").write_text(broken if number % 2 else good, "utf-8")
                running.process.send_signal(signal.SIGHUP)
                await asyncio.sleep(0.05)
            (tmp_path / "policy.yaml").write_text(good, "utf-8")
            running.process.send_signal(signal.SIGHUP)
            await load.more(50)
        assert set(load.statuses(attack=True)) <= {400, 200}
        assert {answer.status for answer in load.answers if answer.attack and answer.door == "inline"} == {400}
        assert set(load.statuses()) == {200, 400}
        assert await asyncio.to_thread(running.stop) == 0
        assert not [body for body in upstream.bodies if ATTACK in text_of(body)]


async def test_a_flood_of_connections_beside_good_traffic(tmp_path: Path) -> None:
    """With hundreds of short connections per second, all good requests are answered."""
    async with recording(respond(ANSWER)) as upstream:
        configured = settings(tmp_path, upstream.url)
        async with world(configured) as here:
            port, ended = int(here.base.rpartition(":")[2]), time.monotonic() + 1.5

            async def flooding() -> None:
                while time.monotonic() < ended:
                    for writer in await opened(port, 20):
                        writer.transport.abort()

            storm = asyncio.ensure_future(flooding())
            statuses = Counter[int]()
            while time.monotonic() < ended:
                statuses[(await here.inline()).status] += 1
            await storm
            assert set(statuses) == {200}
        assert await audit(configured.store.url, upstream) == []
