"""Twin of sidecar/server/allowed_hosts.py: a real server that is asked under many names."""

from __future__ import annotations

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidecar.server.allowed_hosts import allow_hosts
from sidecar.server.middleware import error_boundary


async def fine(_request: web.Request) -> web.Response:
    """Whatever is asked."""
    return web.json_response({})


async def ask(
    hosts: tuple[str, ...], name: str, path: str = "/v1/chat/completions", **given: str
) -> tuple[int, object]:
    """The answer of a server for `hosts` to a request that names `name`."""
    app = web.Application(middlewares=[error_boundary(), allow_hosts(hosts, **given)])
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
    """In any case, with or without a port and the dot at the end."""
    assert await ask(("model.models.svc",), name) == (200, {})


@pytest.mark.parametrize(
    "name", ["", "169.254.169.254", "model", "evil.model.models.svc", "user@model.models.svc@x", "[::"]
)
async def test_another_name_is_refused_in_the_doors_dialect(name: str) -> None:
    """421 on both doors; no part of a name, and nothing that cannot be read, passes."""
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
    """Its operator knows by which names it is called; `listen.hosts` can say them."""
    assert await ask((), "anything.example", listen="0.0.0.0") == (200, {})  # noqa: S104


@pytest.mark.parametrize("listen", ["127.0.0.1", "::1", "localhost", "127.0.0.53"])
async def test_a_loopback_port_answers_to_loopbacks_names_alone(listen: str) -> None:
    """A page whose name was made to point there (DNS rebinding) is refused; names in the settings are answered, too."""
    for name in ("127.0.0.1:8080", "localhost", "[::1]:80", "chat.localhost:3000", "127.8.8.8"):
        assert await ask((), name, listen=listen) == (200, {})
    for name in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""):
        assert (await ask((), name, listen=listen))[0] == 421
    assert (await ask(("gateway.internal",), "gateway.internal", listen=listen))[0] == 200


async def test_envoys_checks_name_the_host_that_envoy_was_asked_for() -> None:
    """So their path is left out, and no other that only begins like it."""
    assert (await ask((), "shop.example", "/envoy/v1/chat/completions", listen="127.0.0.1", exempt_prefix="/envoy/"))[
        0
    ] == 200
    assert (await ask((), "shop.example", "/envoyage", listen="127.0.0.1", exempt_prefix="/envoy/"))[0] == 421
