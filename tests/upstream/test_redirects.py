"""Tests of redirects, directly and from a real upstream."""

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
from sidecar.upstream.message import UpstreamRequest

REQUEST_URL = URL("https://models.example/openai/v1/chat/completions?a=1")


@pytest.mark.parametrize(
    ("value", "path"),
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
def test_a_redirect_within_the_origin_becomes_a_path_on_the_sidecar(value: str, path: str) -> None:
    """Both absolute and relative redirects lead the client back to the sidecar."""
    assert redirects.rewrite_location(307, value, request_url=REQUEST_URL, base_path="/openai", bodiless=False) == path


@pytest.mark.parametrize(
    "value", ["https://other.example/x", "//other.example/x", "http://models.example/x", "http://[", "http://[1]1@"]
)
@pytest.mark.parametrize("status", sorted(redirects.BODY_PRESERVING))
def test_a_redirect_that_repeats_the_body_elsewhere_is_rejected(value: str, status: int) -> None:
    """Another host, port or scheme, or an invalid URL."""
    with pytest.raises(UpstreamError, match=r"upstream\.url"):
        redirects.rewrite_location(status, value, request_url=REQUEST_URL, base_path="", bodiless=False)


@pytest.mark.parametrize(("status", "bodiless"), [(302, False), (303, False), (307, True), (308, True)])
def test_a_redirect_without_a_body_passes(status: int, bodiless: bool) -> None:
    """Redirects that are followed without a body pass unchanged."""
    value = "https://files.example/content?signature=a%2Bb"
    assert redirects.rewrite_location(status, value, request_url=REQUEST_URL, base_path="", bodiless=bodiless) == value


async def test_redirects_of_a_real_server() -> None:
    """They are rewritten, rejected or passed."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": request.query["to"], "X-Other": "1"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        upstream = HttpUpstream(f"{url}/v1", Settings())
        try:
            request = UpstreamRequest("POST", f"/v1/x?to={url}/v1/y", CIMultiDict(), b"{}")
            async with upstream.send(request) as response:
                assert (response.status, response.headers["Location"], response.headers["X-Other"]) == (
                    307,
                    "/v1/y",
                    "1",
                )
            with pytest.raises(UpstreamError) as caught:
                async with upstream.send(UpstreamRequest("POST", "/v1/x?to=https://o.example/", CIMultiDict(), b"{}")):
                    pass
            assert caught.value.status == 502
            async with upstream.send(UpstreamRequest("GET", "/v1/x?to=https://o.example/", CIMultiDict())) as response:
                assert response.headers["Location"] == "https://o.example/"
        finally:
            await upstream.close()
