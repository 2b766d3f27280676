"""Tests `sidecar.server.origins` with requests as sent by browsers; `tests/browser` uses a real browser."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidecar.config.sections import Listen
from sidecar.server.middleware import error_boundary
from sidecar.server.origins import CorsHeaders, allow_origins

ALLOWED = ("https://chat.example", "app://*")
PREFLIGHT = {
    "Origin": "https://chat.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
}


async def fine(_request: web.Request) -> web.Response:
    """An upstream with permissive CORS headers."""
    return web.json_response(
        {}, headers={"access-control-allow-origin": "*", "Access-Control-Allow-Credentials": "true"}
    )


async def ask(
    headers: Mapping[str, str],
    origins: tuple[str, ...] = ALLOWED,
    method: str = "POST",
    path: str = "/v1/chat/completions",
) -> tuple[int, dict[str, str]]:
    """Status and header fields, with names in lower case."""
    app = web.Application(middlewares=[error_boundary(), allow_origins(origins)])
    app.on_response_prepare.append(CorsHeaders(origins))
    app.router.add_route("*", "/{tail:.*}", fine)
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.request(method, server.make_url(path), headers=headers) as answer,
    ):
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://chat.example"},
        {"Origin": "https://chat.example.evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://["},
        {"Origin": "http://rebound.example:8080", "Host": "rebound.example:8080"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_that_is_not_allowed_is_refused(headers: dict[str, str]) -> None:
    """The response is a 403 without CORS headers."""
    status, fields = await ask(headers)
    assert status == 403
    assert not [name for name in fields if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost:8080", "Host": "localhost:8080"},
        {"Origin": "http://10.0.0.7:8080", "Host": "10.0.0.7:8080"},
    ],
)
async def test_what_is_no_page_passes_as_before(headers: dict[str, str]) -> None:
    """Requests of SDKs, curl and the address bar of a browser pass."""
    assert (await ask(headers, ()))[0] == 200


@pytest.mark.parametrize("origin", ["https://chat.example", "HTTPS://Chat.Example", "app://obsidian.md"])
async def test_an_allowed_page_may_ask_and_read(origin: str) -> None:
    """An allowed page may read all header fields, without cookies, regardless of the upstream's CORS headers."""
    status, fields = await ask({"Origin": origin, "Sec-Fetch-Site": "cross-site"})
    assert (status, fields["access-control-allow-origin"]) == (200, origin)
    assert (fields["access-control-expose-headers"], fields["vary"]) == ("*", "Origin")
    assert "access-control-allow-credentials" not in fields


async def test_a_preflight_is_answered_without_a_key() -> None:
    """A preflight is answered by the sidecar and allows the requested method and headers."""
    status, fields = await ask(PREFLIGHT, method="OPTIONS")
    assert status == 204
    assert fields["access-control-allow-methods"] == "POST"
    assert fields["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert "access-control-allow-private-network" not in fields
    private = PREFLIGHT | {"Access-Control-Request-Private-Network": "true"}
    assert (await ask(private, method="OPTIONS"))[1]["access-control-allow-private-network"] == "true"


async def test_a_preflight_of_another_page_is_refused() -> None:
    """A preflight of another origin gets a 403, so that the browser sends no request."""
    assert (await ask(PREFLIGHT | {"Origin": "https://evil.example"}, method="OPTIONS"))[0] == 403


async def test_an_address_of_ipv6_is_meant_literally() -> None:
    """The brackets of an IPv6 address are not a character class."""
    origins = ("http://[::1]:3000",)
    assert (await ask({"Origin": "http://[::1]:3000"}, origins))[0] == 200
    assert (await ask({"Origin": "http://1:3000"}, origins))[0] == 403


async def test_a_check_of_envoys_is_no_page() -> None:
    """Envoy's checks carry the origin of the page that called Envoy, so they are exempt."""
    assert (await ask({"Origin": "https://evil.example"}, (), path="/envoy/v1/chat/completions"))[0] == 200


async def test_any_page_may_be_allowed() -> None:
    """With `*` any origin is allowed; the response names the requesting origin."""
    status, fields = await ask({"Origin": "null"}, ("*",))
    assert (status, fields["access-control-allow-origin"]) == (200, "null")


@pytest.mark.parametrize("origin", ["chat.example", "https://chat.example/path", "https://user@chat.example", ""])
def test_what_is_no_origin_is_refused_at_the_start(origin: str) -> None:
    """The error shows the format of an origin."""
    with pytest.raises(ValueError, match=r"https://chat\.example"):
        Listen(origins=(origin,))
