"""Twin of sidecar/runtime/app.py: the whole application in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import grpc
import pytest
import servers
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families as parse
from support import free_port

from sidecar.api.compat.envoy_messages import SERVICE, CheckRequest, CheckResponse
from sidecar.config import Settings
from sidecar.errors import PolicyError, SidecarError
from sidecar.runtime.app import Sidecar


def settings(folder: Path, **sections: object) -> Settings:
    """Settings on free ports with a store of their own, without the semantic layer."""
    values = {
        "listen": {"port": 0},
        "admin": {"port": 0},
        "store": {"url": f"sqlite:///{folder}/sidecar.db"},
        "layers": {"semantic": {"enabled": False}},
        **sections,
    }
    return Settings.model_validate(values)


async def test_a_sidecar_serves_both_ports_and_stops_clean(tmp_path: Path) -> None:
    """Health on the data port, readiness on the admin port, neither serves the other's routes."""
    async with Sidecar(settings(tmp_path)) as running, ClientSession() as session:
        data, admin = f"http://127.0.0.1:{running.data_port}", f"http://127.0.0.1:{running.admin_port}"
        statuses = {}
        for url in (f"{data}/health", f"{admin}/ready", f"{admin}/metrics", f"{data}/metrics", f"{admin}/v1/models"):
            async with session.get(url) as answer:
                assert "Server" not in answer.headers
                statuses[url.rpartition("/")[2], answer.url.port == running.data_port] = answer.status
    assert statuses == {
        ("health", True): 200,
        ("ready", False): 200,
        ("metrics", False): 200,
        ("metrics", True): 404,
        ("models", False): 404,
    }
    with pytest.raises(OSError, match=r"[Cc]onnect"):
        await asyncio.open_connection("127.0.0.1", running.data_port)


async def test_a_scrape_alone_tells_whether_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks for `/ready`: the gauge is computed at the scrape, and follows a problem there and back."""
    async with Sidecar(settings(tmp_path)) as running, ClientSession() as session:

        async def gauge() -> float:
            async with session.get(f"http://127.0.0.1:{running.admin_port}/metrics") as answer:
                samples = [sample for family in parse(await answer.text()) for sample in family.samples]
            return next(sample.value for sample in samples if sample.name == "sidecar_ready")

        seen = [await gauge()]
        for state in ("draining", "serving"):
            monkeypatch.setattr(running, "_state", state)
            seen.append(await gauge())
    assert seen == [1, 0, 1]


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 421), ("0.0.0.0", 200)])  # noqa: S104
async def test_the_admin_port_is_guarded_where_it_listens_on_loopback(tmp_path: Path, host: str, status: int) -> None:
    """Probes and scrapes name an address of the pod; `admin.url` is a name more, not the only one."""
    named = settings(tmp_path, admin={"port": 0, "host": host, "url": "https://sidecar.example"})
    async with Sidecar(named) as running, ClientSession() as session:
        for name, expected in (("sidecar.example", 200), ("localhost", 200), ("10.1.2.3:9090", status)):
            url = f"http://127.0.0.1:{running.admin_port}/ready"
            async with session.get(url, headers={"Host": name}) as answer:
                assert answer.status == expected


async def test_the_port_for_envoy_is_there_where_it_is_asked_for(tmp_path: Path) -> None:
    """A check over gRPC is answered by the whole application; without the setting there is no such port."""
    configured = settings(tmp_path, listen={"port": 0, "grpc_port": 0}, compat={"envoy": True})
    http = {"method": "GET", "path": "/v1/models", "size": -1}
    async with (
        Sidecar(configured) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel,
    ):
        ask = channel.unary_unary(f"/{SERVICE}/Check", CheckRequest.SerializeToString, CheckResponse.FromString)
        assert (await ask(CheckRequest(attributes={"request": {"http": http}}), timeout=30)).status.code == 0
    async with Sidecar(settings(tmp_path)) as running:
        assert running.grpc_port is None


async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    """A broken policy ends the start with its problem; the port is free for the next try."""
    bad = settings(tmp_path, policies=[str(tmp_path / "absent")])
    with pytest.raises(PolicyError, match="absent"):
        async with Sidecar(bad):
            pass
    async with Sidecar(settings(tmp_path)) as running:
        assert running.data_port


async def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    """The second sidecar on a port says which port it could not have."""
    async with Sidecar(settings(tmp_path)) as running:
        taken = settings(tmp_path, listen={"port": running.data_port})
        with pytest.raises(SidecarError, match=str(running.data_port)):
            async with Sidecar(taken):
                pass


async def state(running: Sidecar) -> tuple[int, str, str, dict[str, float]]:
    """Status, summary and problems of /ready, and the gauges of the dependencies, over HTTP."""
    admin = f"http://127.0.0.1:{running.admin_port}"
    async with ClientSession() as session:
        async with session.get(f"{admin}/ready") as answer:
            ready = await answer.json()
            status = answer.status
        async with session.get(f"{admin}/metrics") as answer:
            families = {family.name: family for family in parse(await answer.text())}
    gauges = {sample.labels["dependency"]: sample.value for sample in families["sidecar_dependency_up"].samples}
    return status, ready["status"], " | ".join(ready["problems"]), gauges


async def until_up(running: Sidecar, **expected: float) -> tuple[int, str, str]:
    """What /ready says once the gauges have these values."""
    deadline = asyncio.get_running_loop().time() + 90
    while True:
        *ready, gauges = await state(running)
        if {name: gauges[name] for name in expected} == expected:
            return ready[0], ready[1], ready[2]
        assert asyncio.get_running_loop().time() < deadline, gauges
        await asyncio.sleep(0.2)


async def test_whatever_is_away_is_told_without_traffic_and_while_it_lasts(tmp_path: Path) -> None:
    """Store, Redis, judge and upstream: degraded with the reason and a gauge, still 200; and back by itself."""
    with servers.postgresql() as store, servers.redis() as redis:
        upstream_port = free_port()
        configured = settings(
            tmp_path,
            store={"url": store.new_database()},
            limits={"url": redis.url},
            cache={"url": redis.url},
            layers={
                "semantic": {"enabled": False},
                "llm_judge": {"url": f"http://127.0.0.1:{free_port()}/v1", "model": "judge"},
            },
            upstream={"url": f"http://127.0.0.1:{upstream_port}"},
            auth={"inline": "optional"},
        )
        async with Sidecar(configured) as running, ClientSession() as session:
            assert "the judge cannot be used" in (await until_up(running, store=1, redis=1, judge=0, upstream=1))[2]
            chat = {"model": "m", "messages": [{"role": "user", "content": "Good morning"}]}
            url = f"http://127.0.0.1:{running.data_port}/v1/chat/completions"
            async with session.post(url, json=chat) as answer:
                assert answer.status == 502
            store.stop()
            redis.stop()
            status, summary, problems = await until_up(running, store=0, redis=0, judge=0, upstream=0)
            assert (status, summary) == (200, "degraded")
            assert "PostgreSQL at" in problems
            assert servers.PASSWORD not in problems
            assert "Redis of the limits" in problems
            assert f"upstream http://127.0.0.1:{upstream_port}" in problems
            await asyncio.to_thread(store.start)
            await asyncio.to_thread(redis.start)
            server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", upstream_port)
            problems = (await until_up(running, store=1, redis=1, upstream=1))[2]
            assert problems.startswith("the judge cannot be used")
            server.close()


def set_read_only(postgres: servers.PostgreSql, url: str, state: str) -> None:
    """Make a database read-only, or not, for its next connections; those that are open are closed."""
    name = url.rpartition("/")[2]
    postgres.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = {state}")
    postgres.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        name,
    )


async def test_a_store_that_is_read_only_is_told_as_decisions_that_wait(
    tmp_path: Path, postgres: servers.PostgreSql
) -> None:
    """Reads go on, so the store is up; the rows that cannot be written are the problem."""
    url = postgres.new_database()
    configured = settings(tmp_path, store={"url": url}, auth={"inline": "optional"})
    async with Sidecar(configured) as running, ClientSession() as session:
        set_read_only(postgres, url, "on")
        chat = {"model": "m", "messages": [{"role": "user", "content": "Good morning"}]}
        proxy = f"http://127.0.0.1:{running.data_port}/v1/chat/completions"
        async with session.post(proxy, json=chat) as answer:
            assert answer.status == 200
        deadline = asyncio.get_running_loop().time() + 60
        while "decisions wait to be written" not in (await state(running))[2]:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.2)
        assert (await state(running))[:2] == (200, "degraded")
        set_read_only(postgres, url, "off")


async def test_the_connections_of_a_whole_process_are_those_that_are_documented(
    tmp_path: Path, postgres: servers.PostgreSql
) -> None:
    """Keys, decisions, pages and notices under load: `connections`, `dashboard_connections` and one, never more."""
    url = postgres.new_database()
    name = url.rpartition("/")[2]
    store = {"url": url, "connections": 2, "dashboard_connections": 1, "flush": 0.05}
    configured = settings(
        tmp_path, store=store, auth={"cache": "0ms"}, limits={"rate": "100000/second"}, log={"level": "warning"}
    )
    count = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND backend_type = 'client backend'"  # noqa: S608
    async with Sidecar(configured) as running, ClientSession() as session:
        keys = [(await running.keyring.create(f"load {number}"))[1] for number in range(6)]
        statuses: Counter[int] = Counter()
        ended = asyncio.Event()

        async def scan(key: str) -> None:
            proxy = f"http://127.0.0.1:{running.data_port}/api/v1/prompt/scan"
            while not ended.is_set():
                async with session.post(proxy, json={"prompt": "Good day"}, headers={"X-API-Key": key}) as answer:
                    statuses[answer.status] += 1

        async def look() -> None:
            while not ended.is_set():
                await running._dashboard_store.analytics.totals()

        load = asyncio.gather(*(scan(key) for key in keys), *(look() for _ in range(4)))
        seen = []
        while len(seen) < 15 or statuses[200] < 100:
            seen.append(int(await asyncio.to_thread(postgres.sql, count)))
        ended.set()
        await load
    assert max(seen) == 4
    assert statuses[200] >= 100
