"""Twin of sidecar/runtime/preflight.py: files and addresses of the settings, tried without starting anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers import PostgreSql, RedisServer
from support import RULES_ONLY, free_port

from sidecar.config import Settings
from sidecar.runtime import preflight
from sidecar.runtime.builder import open_scanner


def settings(**values: object) -> Settings:
    """The rules layer with these settings."""
    return Settings.model_validate({**RULES_ONLY, **values})


async def test_every_problem_of_a_start_is_found_at_once(tmp_path: Path) -> None:
    """Each with its setting."""
    found = await preflight.problems(
        settings(
            store={"url": f"sqlite:///{tmp_path}/absent/sidecar.db"},
            auth={"pepper_file": str(tmp_path / "absent")},
            upstream={"url": "https://127.0.0.1:1", "tls": {"ca_file": str(tmp_path / "absent.pem")}},
            models={"claude-*": {"upstream": {"url": "https://127.0.0.1:2", "api_key_file": str(tmp_path / "no")}}},
        )
    )
    assert [problem.split(":")[0].split()[0] for problem in found] == [
        "auth.pepper_file",
        "upstream.tls.ca_file",
        "store.url",
    ]


async def test_the_files_of_an_mcp_server_are_read(tmp_path: Path) -> None:
    """As those of an upstream are."""
    server = {"url": "https://127.0.0.1:1/mcp", "api_key_file": str(tmp_path / "absent")}
    (problem,) = await preflight.problems(settings(mcp={"servers": {"docs": server}}))
    assert "absent" in problem


async def test_the_defaults_have_no_problem(tmp_path: Path) -> None:
    """An absent SQLite file in a folder that can be written is none, and is not created."""
    file = tmp_path / "sidecar.db"
    assert await preflight.problems(settings(store={"url": f"sqlite:///{file}"})) == []
    assert not file.exists()


@pytest.mark.parametrize("reachable", [True, False])
async def test_each_connection_is_tried(postgres: PostgreSql, redis: RedisServer, *, reachable: bool) -> None:
    """PostgreSQL and Redis as they run, and at a port where nothing listens."""
    gone = f"127.0.0.1:{free_port()}"
    store = postgres.new_database() if reachable else f"postgresql://user:secret@{gone}/x"
    shared = redis.url if reachable else f"redis://{gone}"
    chosen = settings(store={"url": store}, limits={"url": shared}, cache={"url": shared})
    async with open_scanner(chosen, selftests=False) as scanner:
        tried = {name: problem async for name, problem in preflight.connections(chosen, scanner)}
    assert {name: problem is None for name, problem in tried.items()} == dict.fromkeys(
        ("store", "limits", "cache"), reachable
    )
    assert "secret" not in str(tried)


async def test_the_receiver_of_alerts_is_tried_without_its_address(tmp_path: Path) -> None:
    """A connection is made, nothing is sent."""
    store = {"url": f"sqlite:///{tmp_path}/sidecar.db"}
    chosen = settings(alerts={"url": "http://127.0.0.1:9/hush"}, store=store)
    async with open_scanner(chosen) as scanner:
        tried = {name: problem async for name, problem in preflight.connections(chosen, scanner)}
    assert "refused" in (tried["alerts"] or "").lower()
    assert not any(part in str(tried) for part in ("hush", "127.0.0.1:9"))


async def test_the_secret_of_an_openid_client_is_read(tmp_path: Path) -> None:
    """Its file is missing: no start, and the setting is named."""
    oidc = {"issuer": "https://idp.example", "client_id": "sidecar", "client_secret_file": str(tmp_path / "absent")}
    store = {"url": f"sqlite:///{tmp_path}/sidecar.db"}
    (problem,) = await preflight.problems(settings(admin={"oidc": oidc}, store=store))
    assert problem.startswith("admin.oidc.client_secret_file")
