"""Tests `sidecar.server.access_log`: which fields a line has, and that it contains no client text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from sidecar.config import Settings
from sidecar.errors import Unauthorized
from sidecar.server.access_log import access_log
from sidecar.server.middleware import error_boundary
from sidecar.server.responses import DECISION, KEY_ID
from sidecar.util import logs

TRACE = "0af7651916cd43dd8448eb211c80319c"
SETTINGS = Settings.model_validate({"log": {"access": True}, "listen": {"trusted_proxies": ["127.0.0.0/8"]}})


async def fine(request: web.Request) -> web.Response:
    """A handler that accepts the key."""
    request[KEY_ID] = "abcdefgh"
    return web.Response()


async def refused(_request: web.Request) -> web.Response:
    """A handler that refuses the key."""
    raise Unauthorized("Invalid API key.")


async def disconnected(_request: web.Request) -> web.Response:
    """A handler whose client has disconnected."""
    raise ConnectionResetError


@asynccontextmanager
async def listening(settings: Settings = SETTINGS) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A port with the access log and the error boundary in the order of the data port."""
    app = web.Application(middlewares=[*access_log(settings), error_boundary()])
    app.add_routes([web.get("/fine", fine), web.get("/refused", refused), web.get("/left", disconnected)])
    app.add_routes([web.get("/ready", fine), web.get("/files/{name}", fine)])
    logs.configure("json", "info")
    async with TestClient(TestServer(app)) as client:
        yield client


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of the access log."""
    return [json.loads(line) for line in capfd.readouterr().err.splitlines() if '"request_answered"' in line]


async def test_each_request_has_a_line_with_the_id_of_its_answer(capfd: pytest.CaptureFixture[str]) -> None:
    """Each request, scanned or not, is logged with client, route, status, time, decision id, and the caller's trace."""
    async with listening() as client:
        good = await client.get(
            "/fine", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "X-Forwarded-For": "203.0.113.7"}
        )
        bad = await client.get("/refused")
    accepted_line, refused_line = lines(capfd)
    assert {"timestamp", "level", "milliseconds"} <= set(accepted_line)
    assert (accepted_line["method"], accepted_line["route"], accepted_line["status"]) == ("GET", "/fine", 200)
    assert (accepted_line["client"], accepted_line["key_id"], accepted_line["trace"]) == (
        "203.0.113.7",
        "abcdefgh",
        TRACE,
    )
    assert good.status == 200
    assert (refused_line["status"], refused_line["id"]) == (401, bad.headers[DECISION])
    assert "key_id" not in refused_line


async def test_who_does_not_wait_has_a_line_too(capfd: pytest.CaptureFixture[str]) -> None:
    """A disconnected client is logged with status 499, as in nginx."""
    async with listening() as client:
        with suppress(aiohttp.ClientConnectionError):
            await client.get("/left")
    assert [line["status"] for line in lines(capfd)] == [499]


async def test_no_text_of_a_client_reaches_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Client text in the path, the query or the trace header is not logged."""
    async with listening() as client:
        await client.get("/files/my%20secret%20words?q=secret", headers={"traceparent": "00-secret-words-01"})
    (line,) = lines(capfd)
    assert line["route"] == "/files/*"
    assert "secret" not in json.dumps(line)


async def test_probes_have_no_line_and_by_default_nothing_has(capfd: pytest.CaptureFixture[str]) -> None:
    """Probes are not logged, and the access log is off by default."""
    async with listening() as client:
        await client.get("/ready")
    assert access_log(Settings()) == []
    assert lines(capfd) == []
