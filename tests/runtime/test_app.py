"""Twin of sidecar/runtime/app.py: the whole application in this process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from aiohttp import ClientSession

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


def test_a_hang_up_during_the_start_ends_nothing() -> None:
    """SIGHUP before there is anything to reload is ignored, in the webhook for good; SIGTERM still stops."""
    script = """
import asyncio, os, signal
from sidecar.runtime import app
async def main():
    stop = app.stop_on_signal()
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.wait()
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=100, check=False).returncode == 0
