"""Twin of sidecar/server/access_log.py: what a line says, and what it never says."""

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
    """Known by its key."""
    request[KEY_ID] = "abcdefgh"
    return web.Response()


async def refused(_request: web.Request) -> web.Response:
    """Nobody we know."""
    raise Unauthorized("Invalid API key.")


async def left(_request: web.Request) -> web.Response:
    """The client is gone."""
    raise ConnectionResetError


@asynccontextmanager
async def listening(settings: Settings = SETTINGS) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A port with the log and the error_boundary behind it, as the data port has them."""
    app = web.Application(middlewares=[*access_log(settings), error_boundary()])
    app.add_routes([web.get("/fine", fine), web.get("/refused", refused), web.get("/left", left)])
    app.add_routes([web.get("/ready", fine), web.get("/files/{name}", fine)])
    logs.configure("json", "info")
    async with TestClient(TestServer(app)) as client:
        yield client


def lines(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of the access log."""
    return [json.loads(line) for line in capfd.readouterr().err.splitlines() if '"request_answered"' in line]


async def test_each_request_has_a_line_with_the_id_of_its_answer(capfd: pytest.CaptureFixture[str]) -> None:
    """Scanned or not: who asked, for what, when, how it ended; the caller's trace, so that both logs can be joined."""
    async with listening() as client:
        good = await client.get(
            "/fine", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "X-Forwarded-For": "203.0.113.7"}
        )
        bad = await client.get("/refused")
    first, second = lines(capfd)
    assert {"timestamp", "level", "milliseconds"} <= set(first)
    assert (first["method"], first["route"], first["status"]) == ("GET", "/fine", 200)
    assert (first["client"], first["key_id"], first["trace"]) == ("203.0.113.7", "abcdefgh", TRACE)
    assert good.status == 200
    assert (second["status"], second["id"]) == (401, bad.headers[DECISION])
    assert "key_id" not in second


async def test_who_does_not_wait_has_a_line_too(capfd: pytest.CaptureFixture[str]) -> None:
    """With the status that nginx gives it."""
    async with listening() as client:
        with suppress(aiohttp.ClientConnectionError):
            await client.get("/left")
    assert [line["status"] for line in lines(capfd)] == [499]


async def test_no_text_of_a_client_reaches_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in the path, the query, nor where a trace should be."""
    async with listening() as client:
        await client.get("/files/my%20secret%20words?q=secret", headers={"traceparent": "00-secret-words-01"})
    (line,) = lines(capfd)
    assert line["route"] == "/files/*"
    assert "secret" not in json.dumps(line)


async def test_probes_have_no_line_and_by_default_nothing_has(capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody reads a line for each second of a probe."""
    async with listening() as client:
        await client.get("/ready")
    assert access_log(Settings()) == []
    assert lines(capfd) == []
