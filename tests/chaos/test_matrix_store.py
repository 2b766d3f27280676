"""Failure matrix, rows of a store in trouble: slow, read-only, without connections, away while a worker dies.

Traffic without a key continues, a key is checked or refused and never admitted unchecked, no decision is lost.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import servers
from chaos.load import ROUNDS, Load, process_settings, stored
from chaos.test_kills import attacks, children, listeners, scans
from chaos.test_matrix_links import through
from chaos.world import ANSWER, PATIENT, World, audit, patiently, settings, world
from faults import NO_FAULT, Fault, link
from recording import Recording, recording, respond
from support import SidecarProcess

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth
from sidecar.errors import StoreUnavailable
from sidecar.observability.metrics import LOG_DROPPED
from sidecar.runtime.app import Sidecar
from sidecar.storage import Store

pytestmark = pytest.mark.timeout(3600)
moments = random.Random(13)  # noqa: S311 - the same moments in every run
FEW = 2
"""Connections that the database grants where it grants too few."""


@asynccontextmanager
async def stored_in(folder: Path, url: str, cache: str = "0ms") -> AsyncIterator[tuple[World, Recording]]:
    """A sidecar on this store that trusts a key for `cache`; at its end no decision is lost, no attack forwarded."""
    async with recording(respond(ANSWER)) as upstream:
        store = {"url": url, "flush": 0.05}
        configured = settings(folder, upstream.url, store=store, auth={"cache": cache}, upstream=PATIENT)
        dropped = LOG_DROPPED._value.get()
        async with world(configured) as here:
            yield here, upstream
            await patiently(lambda: scans(here), 120)
        assert LOG_DROPPED._value.get() == dropped
        assert attacks(upstream) == []


def check(load: Load, *, keyed: set[int]) -> None:
    """Requests without a key have a verdict, those with one a verdict or the refusal that says why."""
    assert {t.status for t in load.answers if t.door == "inline"} == {200, 400}
    assert {t.status for t in load.answers if t.door == "scan"} <= keyed


@pytest.mark.parametrize("seconds", [0.2, 2.0])
async def test_a_slow_store(tmp_path: Path, postgres: servers.PostgreSql, seconds: float) -> None:
    """Each answer of the database comes late: keys wait for it, or are refused; a wrong key is never admitted."""
    url = postgres.new_database()
    async with link(postgres.port) as wire:
        async with stored_in(tmp_path, through(url, wire.port)) as (here, upstream):
            await wire.set(Fault("latency", pause=seconds))
            load = Load(here)
            async with load.running():
                await load.more(20, 300)
                wrong = World(here.base, here.session, here.key[:-6] + "AAAAAA")
                for _ in range(ROUNDS):
                    assert (await wrong.scan()).status in {401, 503}
                    await load.more(20, 300)
            await wire.set(NO_FAULT)
            check(load, keyed={200, 503})
            keyed = [answer.status for answer in load.answers if answer.door == "scan"]
            if seconds < 1:
                assert keyed.count(200) >= 0.8 * len(keyed) > 0
        assert load.decisions - await stored(url) == set()
        assert await audit(url, upstream) == []


async def test_a_key_in_use_is_never_refused_on_a_slow_store(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """With 0.2 s for each answer of the database, over several times that a key is trusted: every request is served.

    That none waits for the look-up is tested without a clock, in auth/test_api_keys.py.
    """
    url = postgres.new_database()
    async with link(postgres.port) as wire, stored_in(tmp_path, through(url, wire.port), "2s") as (here, _):
        assert (await here.scan()).status == 200
        await wire.set(Fault("latency", pause=0.2))
        until, statuses = asyncio.get_running_loop().time() + 7, Counter[int]()
        while asyncio.get_running_loop().time() < until:
            statuses[(await here.scan()).status] += 1
        await wire.set(NO_FAULT)
    assert set(statuses) == {200}


async def test_a_start_on_a_slow_store(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """With 0.2 s for each answer of the database the sidecar starts, and checks keys."""
    async with link(postgres.port) as wire:
        url = postgres.new_database()
        await (await Store.open(url)).close()
        await wire.set(Fault("latency", pause=0.2))
        async with stored_in(tmp_path, through(url, wire.port)) as (here, _):
            assert (await here.scan()).status == 200


async def test_a_start_on_a_store_that_is_too_slow_waits_for_it(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """With 2 s for each answer no connection is open in time: the process lives, says so, and serves later."""
    url = postgres.new_database()
    async with link(postgres.port) as wire, recording(respond(ANSWER)) as upstream, aiohttp.ClientSession() as session:
        await wire.set(Fault("latency", pause=2.0))
        values = process_settings(tmp_path, upstream.url, store={"url": through(url, wire.port)})
        values["upstream"] |= PATIENT
        running = SidecarProcess(tmp_path, values)
        starting = asyncio.ensure_future(asyncio.to_thread(running.start))
        await patiently((tmp_path / "output").exists, 60)
        await patiently(lambda: "store_unreachable" in running.output, 120)
        await wire.set(NO_FAULT)
        await starting
        assert (await World(running.base, session).inline()).status == 200
        assert await asyncio.to_thread(running.stop) == 0


async def test_a_read_only_store(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """Keys are checked, /ready says why it is degraded, and what could not be written is written afterwards."""
    url = postgres.new_database()
    name = url.rpartition("/")[2]
    async with stored_in(tmp_path, url) as (here, upstream):
        for _ in range(ROUNDS):
            read_only(postgres, name, "on")
            load = Load(here)
            async with load.running():
                await load.more(40, 120)
            check(load, keyed={200, 503})
            missing = load.decisions - await stored(url)
            assert missing, "the database was not read-only"
            read_only(postgres, name, "off")
            await patiently(lambda missing=missing: written(url, missing), 120)
    assert await audit(url, upstream) == []


def read_only(postgres: servers.PostgreSql, name: str, value: str) -> None:
    """Switch a database to read-only transactions, or back, for connections that exist, too."""
    postgres.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
    end_connections(postgres, f"datname = '{name}'")


def end_connections(postgres: servers.PostgreSql, which: str) -> None:
    """End connections of clients, as a failover does."""
    postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + which)  # noqa: S608 - of this test


async def written(url: str, missing: set[str]) -> bool:
    """Whether these decisions are in the store."""
    return missing <= await stored(url)


async def test_a_start_on_a_read_only_store(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """A replica starts on a database that is read-only for now, and serves requests without a key."""
    url = postgres.new_database()
    async with recording(respond(ANSWER)) as upstream:
        configured = settings(tmp_path, upstream.url, store={"url": url}, upstream=PATIENT)
        async with world(configured):
            pass
        read_only(postgres, url.rpartition("/")[2], "on")
        values = process_settings(tmp_path, upstream.url, store={"url": url})
        running = await asyncio.to_thread(SidecarProcess(tmp_path, values).start)
        async with aiohttp.ClientSession() as session:
            assert (await World(running.base, session).inline()).status == 200
            await patiently(lambda: "greeting_incomplete" in running.output, 60)
            async with session.get(running.admin + "/ready") as ready:
                assert ready.status == 200
        assert await asyncio.to_thread(running.stop) == 0
    read_only(postgres, url.rpartition("/")[2], "off")


def test_a_read_only_file_ends_the_start_with_a_plain_message(tmp_path: Path) -> None:
    """SQLite on a file system that is read-only: the database is named, without a traceback."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("mounting a file system takes root")
    try:
        running = SidecarProcess(
            tmp_path, process_settings(tmp_path, "echo://", store={"url": f"sqlite:///{disk}/s.db"})
        )
        running.start()
        assert running.stop() == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(RuntimeError, match=f"ended with 2:(.|\n)*SQLite file {disk}/s.db: "):
            running.start()
        assert "Traceback" not in running.output
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_too_few_connections(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """The database grants two connections, then none: keys are checked or refused, and recover afterwards."""
    postgres.sql(f"CREATE ROLE pair LOGIN PASSWORD '{servers.PASSWORD}'")
    url = postgres.new_database()
    postgres.sql(f"ALTER DATABASE {url.rpartition('/')[2]} OWNER TO pair")
    async with stored_in(tmp_path, url.replace("//postgres:", "//pair:")) as (here, upstream):
        load = Load(here, clients=12)
        for round_ in range(2 * ROUNDS):
            postgres.sql(f"ALTER ROLE pair CONNECTION LIMIT {0 if round_ % 2 else FEW}")
            end_connections(postgres, "usename = 'pair'")
            async with load.running():
                await load.more(60, 300)
            postgres.sql("ALTER ROLE pair CONNECTION LIMIT -1")
            await patiently(lambda: scans(here), 120)
        check(load, keyed={200, 503})
        assert 503 in load.statuses(), "there were connections for everybody"
    assert load.decisions - await stored(url) == set()
    assert await audit(url, upstream) == []


async def test_pages_take_no_connection_from_scans(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """Slow pages hold every connection of the dashboard: another page waits in vain, a scan with a key does not."""
    store = {"url": postgres.new_database(), "connections": 2, "dashboard_connections": 2}
    configured = settings(tmp_path, "echo://", store=store, auth={"cache": "0ms"})
    async with Sidecar(configured) as running, aiohttp.ClientSession() as session:
        _, key = await running.keyring.create("load")
        here, pages = World(f"http://127.0.0.1:{running.data_port}", session, key), running._dashboard_store
        async with pages._database.read(60), pages._database.read(60):
            waiting = asyncio.ensure_future(pages.keys.list())
            assert [(await here.scan()).status for _ in range(5)] == [200] * 5
            with pytest.raises(StoreUnavailable):
                await waiting
        assert len(await pages.keys.list()) == 1


async def test_the_store_is_away_and_a_worker_is_killed(tmp_path: Path) -> None:
    """Again and again: the other worker serves, the supervisor lives, and both serve once the store is back."""
    with servers.postgresql() as database:
        url = database.new_database()
        async with recording(respond(ANSWER)) as upstream, aiohttp.ClientSession() as session:
            values = process_settings(
                tmp_path, upstream.url, upstream={"url": upstream.url, **PATIENT}, store={"url": url}
            )
            running = await asyncio.to_thread(SidecarProcess(tmp_path, values, ("--workers", "2")).start)
            key = await key_in(url)
            assert running.process is not None
            load = Load(World(running.base, session, key))
            async with load.running():
                for _ in range(ROUNDS):
                    await patiently(lambda: listeners(running.port) == 2, 300)
                    await load.more(20)
                    await asyncio.to_thread(database.stop)
                    victim = moments.choice(children(running.process.pid))
                    os.kill(victim, signal.SIGKILL)
                    await asyncio.sleep(moments.random() * 3)
                    await load.more(20, 120)
                    assert running.process.poll() is None
                    await asyncio.to_thread(database.start)
                await patiently(lambda: listeners(running.port) == 2, 300)
                await patiently(lambda: scans(load.world), 120)
            assert await asyncio.to_thread(running.stop, 60) == 0
            assert {t.status for t in load.answers if t.door == "inline"} <= {200, 400, 0}
            assert {t.status for t in load.answers if t.door == "scan"} <= {200, 503, 0}
            assert load.statuses()[0] <= ROUNDS * load.clients
            assert len(load.decisions - await stored(url)) <= 100 * ROUNDS
            assert attacks(upstream) == []


async def key_in(url: str) -> str:
    """A new key in a store."""
    store = await Store.open(url)
    try:
        return (await KeyRing(store, Auth()).create("load"))[1]
    finally:
        await store.close()
