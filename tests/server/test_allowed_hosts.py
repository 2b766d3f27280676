"""Tests `sidecar.server.allowed_hosts` with a real server that gets requests with various Host headers."""

from __future__ import annotations

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidecar.server.allowed_hosts import allow_hosts
from sidecar.server.middleware import error_boundary


async def fine(_request: web.Request) -> web.Response:
    """A handler that accepts any request."""
    return web.json_response({})


async def ask(
    hosts: tuple[str, ...], name: str, path: str = "/v1/chat/completions", **options: str
) -> tuple[int, object]:
    """Status and body of a server for `hosts` for a request with the Host `name`."""
    app = web.Application(middlewares=[error_boundary(), allow_hosts(hosts, **options)])
    app.router.add_route("*", "/{tail:.*}", fine)
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.get(server.make_url(path), headers={"Host": name}) as answer,
    ):
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    "name", ["Model.models.svc", "model.models.svc.:8000", "127.0.0.1:8080", "localhost", "[::1]:80"]
)
async def test_its_own_names_and_loopback_are_answered(name: str) -> None:
    """Names are accepted in any case, with or without a port and a trailing dot."""
    assert await ask(("model.models.svc",), name) == (200, {})


@pytest.mark.parametrize(
    "name", ["", "169.254.169.254", "model", "evil.model.models.svc", "user@model.models.svc@x", "[::"]
)
async def test_another_name_is_refused_in_the_doors_dialect(name: str) -> None:
    """Other names, partial names and malformed ones get a 421 on both kinds of endpoints."""
    status, body = await ask(("model.models.svc",), name)
    assert (status, body) == (
        421,
        {
            "error": {
                "message": "This host is not served here (listen.hosts); nothing was forwarded.",
                "type": "invalid_request_error",
                "param": None,
                "code": "misdirected_request",
            }
        },
    )
    assert (await ask(("model.models.svc",), name, "/health"))[0] == 421


async def test_without_names_a_public_port_answers_everybody() -> None:
    """Without `listen.hosts` a public port accepts any Host."""
    assert await ask((), "anything.example", listen="0.0.0.0") == (200, {})  # noqa: S104


@pytest.mark.parametrize("listen", ["127.0.0.1", "::1", "localhost", "127.0.0.53"])
async def test_a_loopback_port_answers_to_loopbacks_names_alone(listen: str) -> None:
    """A loopback port refuses other names (DNS rebinding), except those in the settings."""
    for name in ("127.0.0.1:8080", "localhost", "[::1]:80", "chat.localhost:3000", "127.8.8.8"):
        assert await ask((), name, listen=listen) == (200, {})
    for name in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""):
        assert (await ask((), name, listen=listen))[0] == 421
    assert (await ask(("gateway.internal",), "gateway.internal", listen=listen))[0] == 200


async def test_envoys_checks_name_the_host_that_envoy_was_asked_for() -> None:
    """The path prefix of Envoy's checks is exempt, and no other path that merely starts alike."""
    assert (await ask((), "shop.example", "/envoy/v1/chat/completions", listen="127.0.0.1", exempt_prefix="/envoy/"))[
        0
    ] == 200
    assert (await ask((), "shop.example", "/envoyage", listen="127.0.0.1", exempt_prefix="/envoy/"))[0] == 421
