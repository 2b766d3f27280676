"""Twin of sidecar/api/scan.py: verdicts as HTTP responses. Successful cases are in tests/test_spec.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidecar.api.scan import ScanApi
from sidecar.auth.api_keys import KeyRing
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.errors import LayerError
from sidecar.limits import MemoryLimiter
from sidecar.scan.engine import Engine, EngineConfig, Stage
from sidecar.server.middleware import Gatekeeper, error_boundary
from sidecar.storage import Store
from sidecar.types import Action, Finding, LayerName, LayerReport, ScanRequest
from sidecar.util.bulkhead import Bulkhead


@dataclass
class Broken:
    """A layer that fails."""

    cause: str
    name: LayerName = LayerName.SEMANTIC

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Fail for the stated cause."""
        raise LayerError(self.cause)


@asynccontextmanager
async def door(folder: Path, engine: Engine) -> AsyncIterator[tuple[TestServer, str]]:
    """The scan API over this engine, and a valid key."""
    settings = Settings()
    store = await Store.open(f"sqlite:///{folder}/api.db")
    ring = KeyRing(store, settings.auth)
    _, key = await ring.create("k", environment="development")
    decision_log = DecisionLog(store, settings.store, settings.log)
    await decision_log.start()
    app = web.Application(middlewares=[error_boundary()])
    app.add_routes(ScanApi(engine, decision_log, Gatekeeper(ring, MemoryLimiter(), settings), settings).routes())
    async with TestServer(app) as server:
        yield server, key
    await decision_log.close()
    await store.close()


async def ask(server: TestServer, key: str, path: str = "/api/v1/prompt/scan") -> tuple[int, object, dict[str, str]]:
    """One scan: status, JSON, headers."""
    body: object = [{"prompt": "x"}] if path.endswith("batch") else {"prompt": "x"}
    async with (
        ClientSession(headers={"X-API-Key": key}) as session,
        session.post(server.make_url(path), json=body) as answer,
    ):
        return answer.status, await answer.json(), dict(answer.headers)


@pytest.mark.parametrize(
    ("cause", "status"), [("error", 503), ("deadline", 503), ("unavailable", 503), ("too_long", 422)]
)
@pytest.mark.parametrize("path", ["/api/v1/prompt/scan", "/api/v1/prompt/explain", "/api/v1/prompt/batch"])
async def test_a_scan_that_could_not_be_done_is_an_error_when_closed(
    tmp_path: Path, cause: str, status: int, path: str
) -> None:
    """Closed: an error and no result."""
    engine = Engine([Stage(Broken(cause))], EngineConfig(), Bulkhead(4, 4))
    async with door(tmp_path, engine) as (server, key):
        results, body, headers = await ask(server, key, path)
    assert results == status
    assert isinstance(body, dict)
    assert list(body) == ["detail"]
    assert status == 422 or headers["Retry-After"] == "1"


@pytest.mark.parametrize(("cause", "status"), [("error", 503), ("too_long", 422)])
async def test_a_refused_scan_is_in_the_scan_log(tmp_path: Path, cause: str, status: int) -> None:
    """With its status and why, as at the inline proxy."""
    engine = Engine([Stage(Broken(cause))], EngineConfig(), Bulkhead(4, 4))
    async with door(tmp_path, engine) as (server, key):
        assert (await ask(server, key))[0] == status
    store = await Store.open(f"sqlite:///{tmp_path}/api.db")
    (row,) = await store.decisions.query()
    await store.close()
    assert (row.door, row.status, row.failure) == ("api", status, cause)


async def test_a_scan_that_finds_no_room_is_in_the_scan_log(tmp_path: Path) -> None:
    """One, and each of a batch."""
    engine = Engine([Stage(Broken("error"))], EngineConfig(), Bulkhead(1, 0))
    async with door(tmp_path, engine) as (server, key), engine._bulkhead, ClientSession() as session:
        assert (await ask(server, key))[0] == 429
        prompts, headers = [{"prompt": "x"}, {"prompt": "y"}], {"X-API-Key": key}
        async with session.post(server.make_url("/api/v1/prompt/batch"), json=prompts, headers=headers) as answer:
            assert answer.status == 429
    store = await Store.open(f"sqlite:///{tmp_path}/api.db")
    rows = await store.decisions.query()
    await store.close()
    assert {(row.door, row.status, row.failure) for row in rows} == {("api", 429, "overload")}
    assert len(rows) >= 2


async def test_a_scan_that_could_not_be_done_says_so_when_open(tmp_path: Path) -> None:
    """Open: the action is allow, and a header names the failure."""
    engine = Engine([Stage(Broken("unavailable"), "skip")], EngineConfig(all_failed=Action.ALLOW), Bulkhead(4, 4))
    async with door(tmp_path, engine) as (server, key):
        status, body, headers = await ask(server, key)
    assert isinstance(body, dict)
    assert (status, body["action"], headers["x-sidecar-unscanned"]) == (200, "allow", "unavailable")


async def test_overload_is_429_with_retry_after(tmp_path: Path) -> None:
    """Overload has the status of the rate limit in this API."""
    engine = Engine([Stage(Broken("error"))], EngineConfig(), Bulkhead(1, 0))
    async with door(tmp_path, engine) as (server, key), engine._bulkhead:
        status, body, headers = await ask(server, key)
    assert (status, headers["Retry-After"]) == (429, "1")
    assert isinstance(body, dict)
    assert list(body) == ["detail"]


async def test_a_bearer_token_is_a_key_and_the_own_header_decides(tmp_path: Path) -> None:
    """An extension of the specification; the 401 names both."""
    broken = Engine([Stage(Broken("error"), "skip")], EngineConfig(all_failed=Action.ALLOW), Bulkhead(1, 1))
    async with door(tmp_path, broken) as (server, key), ClientSession() as session:
        url, bearer = server.make_url("/api/v1/prompt/scan"), {"Authorization": f"Bearer {key}"}
        for headers, status in ((bearer, 200), ({**bearer, "X-API-Key": "psk_wrong"}, 401), ({}, 401)):
            async with session.post(url, json={"prompt": "x"}, headers=headers) as answer:
                assert answer.status == status
                said = await answer.json()
        assert "X-API-Key" in said["detail"]
        assert "Bearer" in said["detail"]
