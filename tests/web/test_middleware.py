"""Twin of sidecar/web/middleware.py: a real server with the boundary around small handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidecar.apikeys import KeyRing
from sidecar.config import Settings
from sidecar.errors import Unauthorized, Unavailable
from sidecar.limits import MemoryLimiter
from sidecar.store import Store
from sidecar.web.answers import KEY_ID
from sidecar.web.middleware import Gatekeeper, boundary


async def crash(_request: web.Request) -> web.Response:
    """A fault that nobody foresaw."""
    raise RuntimeError("the prompt was: top secret")


async def unavailable(_request: web.Request) -> web.Response:
    """A scan that could not be done."""
    raise Unavailable("The prompt could not be scanned (deadline).", retry_after=1)


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """Handlers on both doors behind the boundary."""
    app = web.Application(middlewares=[boundary()])
    for prefix in ("/api/v1", "/v1"):
        app.router.add_post(f"{prefix}/crash", crash)
        app.router.add_post(f"{prefix}/unavailable", unavailable)
    async with TestServer(app) as made:
        yield made


async def post(server: TestServer, path: str) -> tuple[int, dict[str, object], dict[str, str]]:
    """Status, JSON and headers of one POST."""
    async with ClientSession() as session, session.post(server.make_url(path)) as answer:
        return answer.status, await answer.json(), dict(answer.headers)


async def test_500_internal_server_error_has_a_detail_and_no_traceback(
    server: TestServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unforeseen fault is 500 with a detail; neither client nor log learns its text."""
    status, body, headers = await post(server, "/api/v1/crash")
    assert (status, body) == (500, {"detail": "Internal server error."})
    assert headers["x-sidecar-decision"].startswith("dec_")
    assert "top secret" not in capfd.readouterr().err


async def test_the_inline_door_answers_errors_in_openais_envelope(server: TestServer) -> None:
    """Message, type, param and code, as the official SDKs read them."""
    status, body, headers = await post(server, "/v1/unavailable")
    assert (status, headers["Retry-After"]) == (503, "1")
    error = body["error"]
    assert isinstance(error, dict)
    assert {"message", "type", "param", "code"} <= set(error)
    assert error["code"] == "scanner_unavailable"


async def test_the_scan_door_answers_errors_with_a_detail(server: TestServer) -> None:
    """The same error on the other door is `detail` alone."""
    status, body, headers = await post(server, "/api/v1/unavailable")
    assert (status, list(body), headers["Retry-After"]) == (503, ["detail"], "1")


@pytest.mark.parametrize(("path", "door"), [("/api/v1/none", "detail"), ("/v1/none", "error")])
async def test_unknown_routes_are_answered_in_the_doors_dialect(server: TestServer, path: str, door: str) -> None:
    """404 too speaks the dialect of the door."""
    status, body, _ = await post(server, path)
    assert (status, list(body)) == (404, [door])


async def test_the_gatekeeper_checks_the_key_before_the_rate(tmp_path: Path) -> None:
    """A junk key does not use up anybody's rate, a good one is admitted until its rate is spent."""
    settings = Settings.model_validate({"limits": {"rate": "1/minute", "burst": 1}})
    store = await Store.open(f"sqlite:///{tmp_path}/keys.db")
    ring = KeyRing(store, settings.auth)
    _, value = await ring.create("k", environment="development")
    gatekeeper = Gatekeeper(ring, MemoryLimiter(), settings)
    statuses: list[int] = []

    async def handler(request: web.Request) -> web.Response:
        await gatekeeper.admit(request, request.headers.get("X-API-Key"))
        return web.Response(text=request[KEY_ID])

    app = web.Application(middlewares=[boundary()])
    app.router.add_get("/api/x", handler)
    async with TestServer(app) as server, ClientSession() as session:
        for key in ("junk", value, value, "junk"):
            async with session.get(server.make_url("/api/x"), headers={"X-API-Key": key}) as answer:
                statuses.append(answer.status)
    await store.close()
    assert statuses == [Unauthorized.status, 200, 429, Unauthorized.status]
