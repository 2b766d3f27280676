"""Kill -9 of a worker, the process, PostgreSQL and Redis at random moments under load.

Decisions that clients received are compared with the store; no attack reaches the upstream. One round in
`make test`, fifty in `make chaos`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
import servers
from chaos.load import ROUNDS, Load, process_settings, stored
from chaos.world import ANSWER, ATTACK, PATIENT, World, patiently, settings, text_of, world
from recording import Recording, recording, respond
from support import SidecarProcess

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth
from sidecar.observability.metrics import LOG_DROPPED
from sidecar.storage import Store

ALLOWED_LOSS = 100
ALLOWED_SECONDS = 1.0
pytestmark = pytest.mark.timeout(3600)
moments = random.Random(11)  # noqa: S311 - the same moments in every run


def attacks(upstream: Recording) -> list[str]:
    """Attacks that the upstream received, which must be none."""
    return [text for text in map(text_of, upstream.bodies) if ATTACK in text]


def children(pid: int) -> list[int]:
    """Child processes."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


def listeners(port: int) -> int:
    """Number of sockets that listen on a port of loopback."""
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    return sum(line.split()[1] == f"0100007F:{port:04X}" and line.split()[3] == "0A" for line in lines)


async def begin(folder: Path, upstream: Recording, *arguments: str) -> SidecarProcess:
    """A sidecar in a separate process."""
    values = process_settings(folder, upstream.url, scan={"deadline": "30s"}, upstream={"url": upstream.url, **PATIENT})
    process = SidecarProcess(folder, values, arguments)
    return await asyncio.to_thread(process.start)


async def test_the_process_is_killed_again_and_again(tmp_path: Path) -> None:
    """At most 100 rows or one second of scan log are lost; keys and revocations persist; the file is intact."""
    url = f"sqlite:///{tmp_path}/sidecar.db"
    async with recording(respond(ANSWER)) as upstream, aiohttp.ClientSession() as session:
        running = await begin(tmp_path, upstream)
        ring = KeyRing(await Store.open(url), Auth())
        _, value = await ring.create("load")
        created, revoked = [], []
        for round_ in range(ROUNDS):
            load, begun = Load(World(running.base, session, value)), datetime.now(UTC)
            async with load.running():
                await load.more(20)
                key, _ = await ring.create(f"key {round_}")
                created.append(key.id)
                old, deleted = await ring.create(f"gone {round_}")
                await ring.revoke(old.id)
                revoked.append(deleted)
                await asyncio.sleep(moments.random() * 0.5)
                assert running.process is not None
                running.process.send_signal(signal.SIGKILL)
                killed_at = time.monotonic()
                await asyncio.to_thread(running.process.wait)
            assert set(load.statuses(attack=True)) <= {400, 200, 0}
            lost = load.decisions - await stored(url, begun)
            old_news = [
                answer for answer in load.answers if answer.decision in lost and answer.at < killed_at - ALLOWED_SECONDS
            ]
            assert len(lost) <= ALLOWED_LOSS or old_news == []
            with closing(sqlite3.connect(tmp_path / "sidecar.db")) as database:
                assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            running = await asyncio.to_thread(running.start)
            assert {key.id for key in await ring.list()} >= set(created)
            again = World(running.base, session, deleted)
            assert (await again.scan()).status == 401
        await ring._keys._database.close()
        assert await asyncio.to_thread(running.stop) == 0
        assert attacks(upstream) == []


async def test_a_worker_is_killed_again_and_again(tmp_path: Path) -> None:
    """The others serve on; requests in flight get an error; the worker restarts; nothing is forwarded unscanned."""
    url = f"sqlite:///{tmp_path}/sidecar.db"
    async with recording(respond(ANSWER)) as upstream, aiohttp.ClientSession() as session:
        running = await begin(tmp_path, upstream, "--workers", "2")
        store = await Store.open(url)
        _, value = await KeyRing(store, Auth()).create("load")
        await store.close()
        assert running.process is not None
        parent = running.process.pid
        load = Load(World(running.base, session, value))
        async with load.running():
            for _ in range(ROUNDS):
                await patiently(lambda: listeners(running.port) == 2, 300)
                await load.more(20)
                await asyncio.sleep(moments.random() * 0.2)
                victim = moments.choice(children(parent))
                os.kill(victim, signal.SIGKILL)
                await patiently(lambda pid=victim: pid not in children(parent), 300)
                await load.more(20)
        assert await asyncio.to_thread(running.stop) == 0
        assert set(load.statuses()) <= {200, 400, 0}
        assert load.statuses()[0] <= ROUNDS * load.clients
        assert len(load.decisions - await stored(url)) <= ALLOWED_LOSS * ROUNDS
        assert attacks(upstream) == []


async def test_postgresql_is_killed_again_and_again(tmp_path: Path) -> None:
    """Traffic without a key continues, keys get 503 and are never admitted; no row is lost; a revocation persists."""
    with servers.postgresql() as database:
        url = database.new_database()
        async with recording(respond(ANSWER)) as upstream:
            configured = settings(tmp_path, upstream.url, store={"url": url}, auth={"cache": "0ms"}, upstream=PATIENT)
            async with world(configured) as here:
                dropped, load = LOG_DROPPED._value.get(), Load(here)
                async with load.running():
                    for _ in range(ROUNDS):
                        await load.more(20)
                        await asyncio.sleep(moments.random() * 0.3)
                        await asyncio.to_thread(kill, database)
                        await load.more(10)
                        await asyncio.to_thread(database.start)
                        await patiently(lambda: scans(here), 300)
                assert set(load.statuses()) <= {200, 400, 503}
                assert {t.status for t in load.answers if t.door == "inline"} == {200, 400}
                assert {t.status for t in load.answers if t.door == "scan"} == {200, 503}
            assert LOG_DROPPED._value.get() == dropped
            assert load.decisions - await stored(url) == set()
            assert attacks(upstream) == []


def kill(server: servers.Server) -> None:
    """Kill -9 and wait until all processes have ended."""
    assert server.process is not None
    family = children(server.process.pid)
    server.process.kill()
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    server.process.wait()


async def scans(here: World) -> bool:
    """Whether the scan API can check keys again."""
    return (await here.scan()).status == 200


async def test_redis_is_killed_again_and_again(tmp_path: Path) -> None:
    """No client is affected: every response is a verdict, every verdict is in the store."""
    with servers.redis() as shared:
        async with recording(respond(ANSWER)) as upstream:
            limits, cache = {"url": shared.url}, {"url": shared.url}
            configured = settings(tmp_path, upstream.url, limits=limits, cache=cache, upstream=PATIENT)
            async with world(configured) as here:
                load = Load(here)
                async with load.running():
                    for _ in range(ROUNDS):
                        await load.more(20)
                        await asyncio.sleep(moments.random() * 0.3)
                        await asyncio.to_thread(kill, shared)
                        await load.more(20)
                        await asyncio.to_thread(shared.start)
                assert set(load.statuses()) == {200, 400}
            assert load.decisions - await stored(configured.store.url) == set()
            assert attacks(upstream) == []
