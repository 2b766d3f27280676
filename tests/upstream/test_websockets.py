"""Twin of sidecar/upstream/websockets.py: against a real server on loopback, with and without a proxy."""

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
    """Answers what it is told with what it was asked."""

    async def talk(request: web.Request) -> web.StreamResponse:
        if "status" in request.query:
            return web.Response(status=int(request.query["status"]))
        made = web.WebSocketResponse(protocols=["realtime"])
        await made.prepare(request)
        async for message in made:
            await made.send_str(f"{request.headers.get('Authorization')} {message.data}")
        return made

    app = web.Application()
    app.router.add_get("/v1/realtime", talk)
    async with TestServer(app) as running:
        yield running


def dialled(url: URL, **changes: object) -> object:
    """A socket with short patience."""
    given = {"most": 1000, "patience": 2.0, "tls": None, "proxy": None} | changes
    headers = CIMultiDict({"Authorization": "Bearer k"})
    return websockets.dial(url, headers, ["realtime"], **given)  # type: ignore[arg-type]


async def test_messages_go_and_come(server: TestServer) -> None:
    """With the fields of the request, and the protocol that both speak."""
    async with dialled(server.make_url("/v1/realtime")) as socket:  # type: ignore[attr-defined]
        await socket.send_str("hello")
        assert (socket.protocol, await socket.receive_str()) == ("realtime", "Bearer k hello")


@pytest.mark.parametrize(("status", "expected"), [(401, 401), (429, 429), (500, 502), (200, 502)])
async def test_a_refusal_is_the_clients_to_know(server: TestServer, status: int, expected: int) -> None:
    """Who may not, learns it; what is the upstream's own trouble is a 502."""
    with pytest.raises(UpstreamError) as raised:
        async with dialled(server.make_url(f"/v1/realtime?status={status}")):  # type: ignore[attr-defined]
            pass
    assert raised.value.status == expected


async def test_nobody_there_is_an_error() -> None:
    """It names no address."""
    with pytest.raises(UpstreamError, match="did not take"):
        async with dialled(URL("http://127.0.0.1:9/v1/realtime")):  # type: ignore[attr-defined]
            pass


async def test_an_upstream_without_sockets_says_so() -> None:
    """The echo and the local model have none."""
    with pytest.raises(UpstreamError, match="no websockets"):
        async with websockets.NoSocket() as socket:
            assert isinstance(socket, aiohttp.ClientWebSocketResponse)
