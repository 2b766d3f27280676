"""Tests `sidecar.server.middleware` with a real server and the error boundary around small handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import servers
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer, make_mocked_request

from sidecar import limits
from sidecar.auth.api_keys import KeyRing, generate
from sidecar.config import Settings
from sidecar.errors import Unavailable
from sidecar.limits import Limiter, MemoryBudget, MemoryLimiter
from sidecar.server.middleware import Gatekeeper, error_boundary, no_route_error
from sidecar.server.responses import ERROR_FORM, KEY_ID
from sidecar.storage import Store


@dataclass(frozen=True)
class Gate:
    """A running gatekeeper: the values of its keys, and a request function that returns status and Retry-After."""

    ring: KeyRing
    values: list[str]
    ask: Callable[..., Awaitable[tuple[int, str | None]]]


async def crash(_request: web.Request) -> web.Response:
    """A handler with an unexpected error."""
    raise RuntimeError("the prompt was: top secret")


async def unavailable(_request: web.Request) -> web.Response:
    """A handler whose scan failed."""
    raise Unavailable("The prompt could not be scanned (deadline).", retry_after=1)


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """Handlers on both kinds of endpoints behind the error boundary."""
    app = web.Application(middlewares=[error_boundary()])
    for prefix in ("/api/v1", "/v1"):
        app.router.add_post(f"{prefix}/crash", crash)
        app.router.add_post(f"{prefix}/unavailable", unavailable)
    async with TestServer(app) as test_server:
        yield test_server


async def test_any_error_has_the_form_of_the_contract() -> None:
    """Some gateways pass a prompt on at any status but 200."""

    async def handler(request: web.Request) -> web.Response:
        request[ERROR_FORM] = lambda error: web.json_response({"verdict": False, "status": error.status})
        raise RuntimeError("the prompt was: top secret")

    app = web.Application(middlewares=[error_boundary()])
    app.router.add_post("/v1/crash", handler)
    async with TestServer(app) as test_server:
        status, body, _ = await post(test_server, "/v1/crash")
    assert (status, body) == (200, {"verdict": False, "status": 500})


async def post(server: TestServer, path: str) -> tuple[int, dict[str, object], dict[str, str]]:
    """Status, JSON and headers of one POST."""
    async with ClientSession() as session, session.post(server.make_url(path)) as answer:
        return answer.status, await answer.json(), dict(answer.headers)


async def test_500_internal_server_error_has_a_detail_and_no_traceback(
    server: TestServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unexpected error is a 500 with a generic detail; its message reaches neither client nor log."""
    status, body, headers = await post(server, "/api/v1/crash")
    assert (status, body) == (500, {"detail": "Internal server error."})
    assert headers["x-sidecar-decision"].startswith("dec_")
    assert "top secret" not in capfd.readouterr().err


async def test_who_finds_no_memory_is_told_to_come_again_and_the_reserve_is_let_go() -> None:
    """Lack of memory or threads is a 503 with Retry-After and releases the reserve; other errors do not."""

    async def short(request: web.Request) -> web.Response:
        raise RuntimeError("can't start new thread") if request.path.endswith("thread") else MemoryError

    for handler, path, status in ((short, "/v1/short", 503), (short, "/v1/thread", 503), (crash, "/v1/crash", 500)):
        budget = MemoryBudget(1000)
        app = web.Application(middlewares=[error_boundary(budget)])
        app.router.add_post(path, handler)
        async with TestServer(app) as server:
            answered, _, headers = await post(server, path)
        assert (answered, headers.get("Retry-After")) == (status, "1" if status == 503 else None)
        assert budget._reserve.held == (status != 503)


async def test_the_inline_door_answers_errors_in_openais_envelope(server: TestServer) -> None:
    """An error has message, type, param and code, as the official SDKs expect."""
    status, body, headers = await post(server, "/v1/unavailable")
    assert (status, headers["Retry-After"]) == (503, "1")
    error = body["error"]
    assert isinstance(error, dict)
    assert {"message", "type", "param", "code"} <= set(error)
    assert error["code"] == "scanner_unavailable"


async def test_the_scan_door_answers_errors_with_a_detail(server: TestServer) -> None:
    """The same error on the scan API has only `detail`."""
    status, body, headers = await post(server, "/api/v1/unavailable")
    assert (status, list(body), headers["Retry-After"]) == (503, ["detail"], "1")


@pytest.mark.parametrize(("path", "field"), [("/api/v1/none", "detail"), ("/v1/none", "error")])
async def test_unknown_routes_are_answered_in_the_doors_dialect(server: TestServer, path: str, field: str) -> None:
    """A 404 has the dialect of the endpoint."""
    status, body, _ = await post(server, path)
    assert (status, list(body)) == (404, [field])


@asynccontextmanager
async def gate(folder: Path, limiter: Limiter, **sections: object) -> AsyncIterator[Gate]:
    """A gatekeeper with two keys behind a server that responds with the id of the admitted key."""
    settings = Settings.model_validate(sections)
    store = await Store.open(f"sqlite:///{folder}/keys.db")
    ring = KeyRing(store, settings.auth)
    values = [(await ring.create(name))[1] for name in "ab"]
    gatekeeper = Gatekeeper(ring, limiter, settings)

    async def handler(request: web.Request) -> web.Response:
        await gatekeeper.admit(request, request.headers.get("X-API-Key"))
        return web.Response(text=request[KEY_ID])

    app = web.Application(middlewares=[error_boundary()])
    app.router.add_get("/api/x", handler)
    async with TestServer(app) as server, ClientSession() as session:

        async def ask(key: str | None, address: str = "") -> tuple[int, str | None]:
            headers = {"X-API-Key": key} if key is not None else {}
            headers |= {"X-Forwarded-For": address} if address else {}
            async with session.get(server.make_url("/api/x"), headers=headers) as answer:
                return answer.status, answer.headers.get("Retry-After")

        yield Gate(ring, values, ask)
    await ring.close()
    await store.close()


async def test_the_gatekeeper_checks_the_key_before_the_rate(tmp_path: Path) -> None:
    """An invalid key uses up no rate; a valid one is admitted until its rate is exhausted."""
    async with gate(tmp_path, MemoryLimiter(), limits={"rate": "1/minute", "burst": 1}) as running:
        value = running.values[0]
        assert [(await running.ask(key))[0] for key in ("junk", value, value, "junk")] == [401, 200, 429, 401]


async def test_requests_over_a_limit_are_counted_for_their_key(tmp_path: Path) -> None:
    """Those of its rate, and nothing else: not those that were admitted, nor those with a key that is not valid."""
    async with gate(tmp_path, MemoryLimiter(), limits={"rate": "1/minute", "burst": 1}) as running:
        first, second = running.values
        assert [(await running.ask(key))[0] for key in (first, first, first, second, "junk")] == [
            *(200, 429, 429, 200),
            401,
        ]
        key_id = (await running.ring.authenticate(first)).id
        assert {key[0]: number for key, number in running.ring.refusals._counts.items()} == {key_id: 2}


@pytest.fixture(params=["memory", "redis"])
async def limiter(request: pytest.FixtureRequest) -> AsyncIterator[Limiter]:
    """An empty limiter of each kind."""
    url = "memory://"
    if request.param == "redis":
        redis: servers.RedisServer = request.getfixturevalue("redis")
        redis.ask("FLUSHALL")
        url = redis.url
    opened = await limits.open(url)
    yield opened
    await opened.close()


async def test_an_address_whose_keys_fail_too_often_has_to_wait(limiter: Limiter, tmp_path: Path) -> None:
    """All kinds of invalid keys count alike, and Retry-After is the waiting time; cached keys pass at once."""
    async with gate(tmp_path, limiter, auth={"failures": "5/hour"}) as running:
        cached_key, uncached_key = running.values
        assert (await running.ask(cached_key))[0] == 200
        bad = [None, "junk", generate()[0], generate()[0], "", generate()[0], "junk", None]
        answers = [await running.ask(value) for value in bad]
        assert [status for status, _ in answers] == [401] * 5 + [429] * 3
        assert all(700 < int(wait or 0) <= 720 for _, wait in answers[5:])
        assert [(await running.ask(key))[0] for key in (cached_key, uncached_key)] == [200, 429]


async def test_a_failed_key_that_was_valid_counts_too(limiter: Limiter, tmp_path: Path) -> None:
    """A revoked key that is still cached counts as a failure."""
    async with gate(tmp_path, limiter, auth={"failures": "2/hour"}) as running:
        await running.ring.revoke((await running.ring.authenticate(running.values[0])).id)
        assert [(await running.ask(running.values[0]))[0] for _ in range(4)] == [401, 401, 429, 429]


async def test_the_use_of_a_revoked_key_is_logged_with_its_id_and_address(
    limiter: Limiter, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A client that still uses it is found; neither its value nor a guessed one is written anywhere."""
    async with gate(tmp_path, limiter) as running:
        key, guess = await running.ring.authenticate(running.values[0]), generate()[0]
        await running.ring.revoke(key.id)
        statuses = [(await running.ask(value))[0] for value in (running.values[0], guess)]
    output = "".join(capfd.readouterr())
    (line,) = [line for line in output.splitlines() if "keys_refused" in line]
    assert statuses == [401, 401]
    assert key.id in line
    assert "127.0.0.1" in line
    assert running.values[0] not in output
    assert guess not in output


async def test_addresses_are_counted_apart_where_a_proxy_is_trusted(limiter: Limiter, tmp_path: Path) -> None:
    """Behind a trusted proxy each client address, or IPv6 /64, has its own budget."""
    trusted = {"listen": {"trusted_proxies": ["127.0.0.0/8", "::1"]}, "auth": {"failures": "1/hour"}}
    async with gate(tmp_path, limiter, **trusted) as running:
        for address in ("203.0.113.1", "203.0.113.2", "2001:db8::1"):
            assert [(await running.ask("junk", address))[0] for _ in range(2)] == [401, 429]
        assert (await running.ask("junk", "2001:db8::ffff"))[0] == 429
        assert (await running.ask("junk", "2001:db8:0:1::1"))[0] == 401
        assert (await running.ask("junk", "203.0.113.9, 203.0.113.1"))[0] == 429


async def test_a_claimed_address_is_no_way_around_the_limit(limiter: Limiter, tmp_path: Path) -> None:
    """By default X-Forwarded-For is ignored."""
    async with gate(tmp_path, limiter, auth={"failures": "2/hour"}) as running:
        assert [(await running.ask("junk", f"203.0.113.{n}"))[0] for n in range(4)] == [401, 401, 429, 429]


@pytest.mark.parametrize(("path", "hinted"), [("/", True), ("/api", True), ("/api/v1/none", False)])
def test_the_root_of_the_port_says_where_things_are(path: str, *, hinted: bool) -> None:
    """Who opens the port in a browser is led on; a mistyped route is not explained."""
    error = no_route_error(make_mocked_request("GET", path), [])
    assert (error.status, "/openapi.json" in error.detail) == (404, hinted)
