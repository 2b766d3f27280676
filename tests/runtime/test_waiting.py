"""Twin of sidecar/runtime/waiting.py: real processes whose PostgreSQL is away when they start."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx2 as httpx
import pytest
import servers
from runtime.test_workers import wait_until
from support import ONE_RULE, SidecarProcess


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one", "workers"])
def test_a_start_waits_for_the_store_and_says_so(workers: tuple[str, ...], tmp_path: Path) -> None:
    """Alive, neither started nor ready, with the reason; it serves once the store is back, in the same process."""
    with servers.postgresql() as store:
        settings = {**ONE_RULE, "store": {"url": store.new_database()}}
        store.stop()
        running = SidecarProcess(tmp_path, settings, workers)
        starting = threading.Thread(target=running.start)
        starting.start()
        wait_until((tmp_path / "output").exists)
        wait_until(lambda: "store_unreachable" in running.output, 90)
        codes = {path: httpx.get(f"{running.admin}{path}").status_code for path in ("/health", "/startup", "/ready")}
        assert codes == {"/health": 200, "/startup": 503, "/ready": 503}
        for path in ("/startup", "/ready"):
            assert "waits for the store: PostgreSQL" in httpx.get(f"{running.admin}{path}").json()["problems"][-1]
        lines = httpx.get(f"{running.admin}/metrics").text.splitlines()
        assert "sidecar_ready 0.0" in lines
        up = [line for line in lines if line.startswith("sidecar_dependency_up")]
        assert up == ['sidecar_dependency_up{dependency="store"} 0.0']
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{running.base}/health")
        store.start()
        starting.join()
        assert httpx.get(f"{running.admin}/startup").status_code == 200
        assert 'sidecar_dependency_up{dependency="store"} 1.0' in httpx.get(f"{running.admin}/metrics").text
        assert running.process is not None
        assert ("worker_died" in running.output, running.stop()) == (False, 0)


def test_a_start_that_waits_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    """SIGTERM while the store is away: exit code 0, at once."""
    settings = {**ONE_RULE, "store": {"url": "postgresql://nobody@127.0.0.1:9/none"}}
    running = SidecarProcess(tmp_path, settings)
    starting = threading.Thread(target=lambda: _ignoring_the_end(running))
    starting.start()
    wait_until((tmp_path / "output").exists)
    wait_until(lambda: "store_unreachable" in running.output, 90)
    assert running.stop() == 0
    starting.join()


def _ignoring_the_end(running: SidecarProcess) -> None:
    with pytest.raises(RuntimeError, match="ended with 0"):
        running.start()
