"""Twin of sidecar/upstream/redirects.py: where a client is led, and by a real upstream."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict
from yarl import URL

from sidecar.config import Upstream as Settings
from sidecar.errors import UpstreamError
from sidecar.upstream import redirects
from sidecar.upstream.http import HttpUpstream
from sidecar.upstream.message import Outgoing

AT = URL("https://models.example/openai/v1/chat/completions?a=1")


@pytest.mark.parametrize(
    ("value", "led"),
    [
        ("/openai/v1/files/7?b=%2F", "/v1/files/7?b=%2F"),
        ("https://models.example/openai/v1/x", "/v1/x"),
        ("https://models.example:443/openai/v1/x", "/v1/x"),
        ("completions/", "/v1/chat/completions/"),
        ("https://models.example/login", "/login"),
        ("https://models.example//evil.example/v1", "/evil.example/v1"),
        ("/openai//evil.example/v1", "/evil.example/v1"),
    ],
)
def test_a_redirect_within_the_origin_is_a_path_of_the_sidecar(value: str, led: str) -> None:
    """Absolute or relative, the client asks the sidecar again."""
    assert redirects.location(307, value, at=AT, base="/openai", bodiless=False) == led


@pytest.mark.parametrize(
    "value", ["https://other.example/x", "//other.example/x", "http://models.example/x", "http://[", "http://[1]1@"]
)
@pytest.mark.parametrize("status", sorted(redirects.REPEATING))
def test_no_body_is_led_to_another_origin(value: str, status: int) -> None:
    """Another host, port or scheme, or what is no address at all."""
    with pytest.raises(UpstreamError, match=r"upstream\.url"):
        redirects.location(status, value, at=AT, base="", bodiless=False)


@pytest.mark.parametrize(("status", "bodiless"), [(302, False), (303, False), (307, True), (308, True)])
def test_a_file_elsewhere_is_found(status: int, bodiless: bool) -> None:
    """What is followed without a body passes as it is."""
    value = "https://files.example/content?signature=a%2Bb"
    assert redirects.location(status, value, at=AT, base="", bodiless=bodiless) == value


async def test_the_upstream_is_heard_through_the_sidecar() -> None:
    """A real server's redirects: rewritten, refused, or passed."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": request.query["to"], "X-Other": "1"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        upstream = HttpUpstream(f"{url}/v1", Settings())
        try:
            own = Outgoing("POST", f"/v1/x?to={url}/v1/y", CIMultiDict(), b"{}")
            async with upstream.send(own) as found:
                assert (found.status, found.headers["Location"], found.headers["X-Other"]) == (307, "/v1/y", "1")
            with pytest.raises(UpstreamError) as refused:
                async with upstream.send(Outgoing("POST", "/v1/x?to=https://o.example/", CIMultiDict(), b"{}")):
                    pass
            assert refused.value.status == 502
            async with upstream.send(Outgoing("GET", "/v1/x?to=https://o.example/", CIMultiDict())) as found:
                assert found.headers["Location"] == "https://o.example/"
        finally:
            await upstream.close()
