"""Tests of websockets against a real server on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict
from yarl import URL

from sidecar.errors import UpstreamError
from sidecar.upstream import websockets


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """Replies to each message with the request's credentials and the message."""

    async def talk(request: web.Request) -> web.StreamResponse:
        if "status" in request.query:
            return web.Response(status=int(request.query["status"]))
        socket = web.WebSocketResponse(protocols=["realtime"])
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"{request.headers.get('Authorization')} {message.data}")
        return socket

    app = web.Application()
    app.router.add_get("/v1/realtime", talk)
    async with TestServer(app) as running:
        yield running


def connected(url: URL, **changes: object) -> object:
    """A websocket with a short timeout."""
    arguments = {
        "max_message_size": 1000,
        "connect_timeout": 2.0,
        "handshake_timeout": 2.0,
        "tls": None,
        "proxy": None,
    } | changes
    headers = CIMultiDict({"Authorization": "Bearer k"})
    return websockets.connect(url, headers, ["realtime"], **arguments)  # type: ignore[arg-type]


async def test_messages_pass_in_both_directions(server: TestServer) -> None:
    """With the headers of the request and the common subprotocol."""
    async with connected(server.make_url("/v1/realtime")) as socket:  # type: ignore[attr-defined]
        await socket.send_str("hello")
        assert (socket.protocol, await socket.receive_str()) == ("realtime", "Bearer k hello")


@pytest.mark.parametrize(("status", "expected"), [(401, 401), (429, 429), (500, 502), (200, 502)])
async def test_client_errors_are_forwarded(server: TestServer, status: int, expected: int) -> None:
    """Client errors of the handshake keep their status; other failures are a 502."""
    with pytest.raises(UpstreamError) as raised:
        async with connected(server.make_url(f"/v1/realtime?status={status}")):  # type: ignore[attr-defined]
            pass
    assert raised.value.status == expected


async def test_an_unreachable_upstream_is_an_error() -> None:
    """The message names no address."""
    with pytest.raises(UpstreamError, match="did not take"):
        async with connected(URL("http://127.0.0.1:9/v1/realtime")):  # type: ignore[attr-defined]
            pass


async def test_an_upstream_without_websockets_is_an_error() -> None:
    """The echo and the local model support none."""
    with pytest.raises(UpstreamError, match="no websockets"):
        async with websockets.UnsupportedWebSocket() as socket:
            assert isinstance(socket, aiohttp.ClientWebSocketResponse)
