"""Twin of sidecar/runtime/workers.py: real worker processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import servers
from prometheus_client.parser import text_string_to_metric_families as parse
from runtime.test_app import set_read_only
from support import ONE_RULE, RULES_ONLY, SidecarProcess, StartSidecar

from sidecar.cli.serve import MAX_WORKERS
from sidecar.limits.processors import available


def children(parent: int) -> set[int]:
    """The process ids of a process' children."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii")
    return {int(number) for number in listed.split()}


def wait_until(condition: object, seconds: float = 30.0) -> None:
    """Wait until a callable says yes."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def alive(url: str) -> bool:
    """Whether /health answers."""
    try:
        return httpx.get(url + "/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_a_worker_that_dies_is_started_again_and_all_stop_together(start_sidecar: StartSidecar) -> None:
    """Kill -9 of one worker leaves the port served and two workers again; SIGTERM ends all with code 0."""
    running = start_sidecar(ONE_RULE, "--workers", "2")
    assert running.process is not None
    parent = running.process.pid
    wait_until(lambda: len(children(parent)) == 2)
    victim = min(children(parent))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in children(parent) and len(children(parent)) == 2)
    wait_until(lambda: alive(running.base))
    workers = children(parent)
    assert running.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_auto_is_a_worker_for_each_processor(start_sidecar: StartSidecar) -> None:
    """That this process may use; with one there is no supervisor."""
    running = start_sidecar(ONE_RULE, "--workers", "auto")
    assert running.process is not None
    count, parent = min(available(), MAX_WORKERS), running.process.pid
    wait_until(lambda: len(children(parent)) == (count if count > 1 else 0))
    assert running.stop() == 0


def test_a_hang_up_is_handed_on_to_every_worker(start_sidecar: StartSidecar) -> None:
    """SIGHUP to the supervisor, with no file changed: each of the two reads everything again, the shipped rules too."""
    running = start_sidecar(RULES_ONLY, "--workers", "2")
    assert running.process is not None
    parent = running.process.pid
    wait_until(lambda: running.output.count("listen_started") == 2)
    workers = children(parent)
    os.kill(parent, signal.SIGHUP)
    wait_until(lambda: running.output.count("reload_done") == 2)
    assert children(parent) == workers
    assert running.stop() == 0


def test_a_configuration_error_stops_the_supervisor(start_sidecar: StartSidecar, tmp_path: Path) -> None:
    """Exit code 2 of a worker means that no restart helps: the supervisor ends with it."""
    bad = {**RULES_ONLY, "policies": [str(tmp_path / "absent")]}
    process = None
    try:
        start_sidecar(bad, "--workers", "2")
    except RuntimeError as error:
        process = str(error)
    assert process is not None
    assert "ended with 2" in process


def answers(url: str) -> bool:
    """Whether the inline proxy answers a chat, each time over a new connection."""
    chat = {"model": "m", "messages": [{"role": "user", "content": "Good morning"}]}
    try:
        return httpx.post(url + "/v1/chat/completions", json=chat, timeout=30).status_code == 200
    except httpx.TransportError:
        return False


def readiness(running: SidecarProcess) -> dict[str, Any]:
    """What /ready says; another worker may answer each time."""
    found: dict[str, Any] = httpx.get(running.admin + "/ready", timeout=30).json()
    return found


def counted(running: SidecarProcess) -> float:
    """The decisions of the inline proxy, as one scrape has them."""
    families = {family.name: family for family in parse(httpx.get(running.admin + "/metrics", timeout=30).text)}
    samples = families["sidecar_decisions"].samples
    return sum(s.value for s in samples if s.name.endswith("_total") and s.labels["door"] == "inline")


def test_a_scrape_has_the_counts_of_all_workers_whichever_answers(start_sidecar: StartSidecar) -> None:
    """Many scrapes over new connections agree, and the sum does not fall when a worker is killed and replaced."""
    running = start_sidecar({**ONE_RULE, "auth": {"inline": "optional"}}, "--workers", "2")
    assert running.process is not None
    parent = running.process.pid
    wait_until(lambda: running.output.count("listen_started") == 2)
    assert all(answers(running.base) for _ in range(20))
    wait_until(lambda: counted(running) == 20)
    assert {counted(running) for _ in range(12)} == {20}
    os.kill(min(children(parent)), signal.SIGKILL)
    assert counted(running) == 20
    wait_until(lambda: running.output.count("listen_started") == 3)
    assert {counted(running) for _ in range(12)} == {20}
    assert answers(running.base)
    wait_until(lambda: counted(running) == 21)
    assert running.stop() == 0


def gauges(running: SidecarProcess) -> set[float]:
    """What scrapes over new connections, answered by either worker, say about readiness."""
    scrapes = [parse(httpx.get(running.admin + "/metrics", timeout=30).text) for _ in range(8)]
    families = [{family.name: family for family in scrape} for scrape in scrapes]
    return {each["sidecar_ready"].samples[0].value for each in families}


def test_scrapes_alone_tell_whether_all_workers_are_ready(tmp_path: Path, postgres: servers.PostgreSql) -> None:
    """Nobody asks for `/ready`: one worker cannot write its log, which is required, and every scrape says so; and back.

    The database is read-only meanwhile, so nothing else changes.
    """
    url = postgres.new_database()
    settings = {**ONE_RULE, "store": {"url": url}, "log": {"required": True}, "auth": {"inline": "optional"}}
    running = SidecarProcess(tmp_path, settings, ("--workers", "2"), probe="/metrics").start()
    wait_until(lambda: gauges(running) == {1}, 90)
    set_read_only(postgres, url, "on")
    assert answers(running.base)
    wait_until(lambda: gauges(running) == {0}, 60)
    set_read_only(postgres, url, "off")
    wait_until(lambda: gauges(running) == {1}, 60)
    assert running.stop() == 0


def test_a_worker_that_meets_a_broken_configuration_leaves_the_others_alone(start_sidecar: StartSidecar) -> None:
    """A worker is killed while the settings file is wrong: the other one serves, and both do once it is mended."""
    running = start_sidecar({**ONE_RULE, "auth": {"inline": "optional"}}, "--workers", "2")
    assert running.process is not None
    parent = running.process.pid
    wait_until(lambda: running.output.count("listen_started") == 2)
    good = running.config.read_text("utf-8")
    running.config.write_text("nonsense: true\n" + good, "utf-8")
    survivor = max(children(parent))
    os.kill(min(children(parent)), signal.SIGKILL)
    wait_until(lambda: running.output.count("worker_died") >= 3)
    assert survivor in children(parent)
    assert all(answers(running.base) for _ in range(10))
    running.config.write_text(good, "utf-8")
    wait_until(lambda: running.output.count("listen_started") == 3)
    assert survivor in children(parent)
    assert running.stop() == 0


def test_a_worker_that_cannot_reach_the_store_is_started_again_and_the_others_go_on(
    start_sidecar: StartSidecar,
) -> None:
    """PostgreSQL stops and a worker is killed: the other one serves, and both do once the store is back."""
    with servers.postgresql() as store:
        settings = {**ONE_RULE, "store": {"url": store.new_database()}, "auth": {"inline": "optional"}}
        running = start_sidecar(settings, "--workers", "2")
        assert running.process is not None
        parent = running.process.pid
        wait_until(lambda: running.output.count("listen_started") == 2)
        store.stop()
        victim = min(children(parent))
        survivor = max(children(parent))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: running.output.count("store_unreachable") >= 2, 90)
        assert running.process.poll() is None
        assert survivor in children(parent)
        assert all(answers(running.base) for _ in range(10))
        wait_until(lambda: "worker" in str(readiness(running)["problems"]))
        assert readiness(running)["status"] == "degraded"
        store.start()
        wait_until(lambda: running.output.count("listen_started") == 3, 90)
        assert survivor in children(parent)
        assert all(answers(running.base) for _ in range(10))
        wait_until(lambda: readiness(running)["status"] == "ok")
        assert running.stop() == 0


def test_too_few_connections_at_the_start_are_waited_for(postgres: servers.PostgreSql, tmp_path: Path) -> None:
    """PostgreSQL refuses every connection ("too many"): the supervisor lives, and both workers serve later."""
    postgres.sql(f"CREATE ROLE few LOGIN PASSWORD '{servers.PASSWORD}' CONNECTION LIMIT 0")
    url = postgres.new_database()
    postgres.sql(f"ALTER DATABASE {url.rpartition('/')[2]} OWNER TO few")
    settings = {**ONE_RULE, "store": {"url": url.replace("//postgres:", "//few:")}}
    running = SidecarProcess(tmp_path, settings, ("--workers", "2"))
    starting = threading.Thread(target=running.start)
    starting.start()
    wait_until((tmp_path / "output").exists)
    wait_until(lambda: running.output.count("too many connections") >= 4, 90)
    assert running.process is not None
    assert running.process.poll() is None
    postgres.sql("ALTER ROLE few CONNECTION LIMIT -1")
    wait_until(lambda: running.output.count("listen_started") == 2, 90)
    starting.join()
    assert running.stop() == 0
