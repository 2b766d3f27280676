"""Twin of sidecar/decision_log/splunk.py, against a local server that answers as an HTTP Event Collector does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar import config
from sidecar.decision_log.sink import SinkError
from sidecar.decision_log.splunk import SplunkReceiver
from sidecar.errors import ConfigError

EVENT = {"time": 1700000000.5, "event": "decision_made", "id": "dec_1", "action": "block"}


class Collector:
    """Keeps the bodies and answers with `status`, or 403 without the right token."""

    def __init__(self) -> None:
        self.status, self.events, self.token = 200, list[dict[str, Any]](), "t-1"

    async def collect(self, request: web.Request) -> web.Response:
        """The documented form: events one after the other."""
        if request.headers.get("Authorization") != f"Splunk {self.token}":
            return web.json_response({"text": "Invalid token", "code": 4}, status=403)
        if self.status == 200:
            self.events += [json.loads(line) for line in (await request.text()).splitlines()]
        return web.json_response({"text": "Success", "code": 0}, status=self.status)


@pytest_asyncio.fixture
async def collector() -> AsyncIterator[tuple[Collector, str]]:
    """A running collector and its address."""
    collector, app = Collector(), web.Application()
    app.router.add_post("/services/collector/event", collector.collect)
    async with TestServer(app) as server:
        yield collector, str(server.make_url("/"))


def receiver(url: str, folder: Path, **changes: Any) -> SplunkReceiver:
    """A receiver with the token of the collector in a file."""
    (folder / "token").write_text("t-1\n", "utf-8")
    return SplunkReceiver(config.Splunk(url=url, token_file=folder / "token", **changes))


async def test_a_batch_is_one_request_of_events_in_splunks_form(
    collector: tuple[Collector, str], tmp_path: Path
) -> None:
    """With time, host, source, type and index; the event without its time."""
    splunk = receiver(collector[1], tmp_path, index="security")
    await splunk.send([EVENT, EVENT])
    first, second = collector[0].events
    assert first == second
    assert (first["time"], first["source"], first["index"]) == (1700000000.5, "prompt-sidecar", "security")
    assert first["sourcetype"] == "prompt_sidecar:decision"
    assert first["event"] == {"event": "decision_made", "id": "dec_1", "action": "block"}
    await splunk.close()


async def test_a_rotated_token_is_used_without_a_restart(collector: tuple[Collector, str], tmp_path: Path) -> None:
    """A wrong one is an error that is tried again; it is in no message."""
    splunk = receiver(collector[1], tmp_path)
    collector[0].token = "t-2"
    with pytest.raises(SinkError, match="HTTP 403") as raised:
        await splunk.send([EVENT])
    assert (raised.value.rejected, "t-1" in str(raised.value)) == (False, False)
    (tmp_path / "token").write_text("t-2", "utf-8")
    await splunk.send([EVENT])
    assert len(collector[0].events) == 1
    await splunk.close()


@pytest.mark.parametrize(("status", "rejected"), [(400, True), (413, True), (503, False), (307, False)])
async def test_what_the_collector_never_takes_is_told_from_what_it_takes_later(
    collector: tuple[Collector, str], status: int, *, rejected: bool, tmp_path: Path
) -> None:
    """A wrong batch is dropped, a busy collector is asked again."""
    splunk = receiver(collector[1], tmp_path)
    collector[0].status = status
    with pytest.raises(SinkError) as raised:
        await splunk.send([EVENT])
    assert raised.value.rejected is rejected
    await splunk.close()


async def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """With the setting's name."""
    with pytest.raises(ConfigError, match=r"sinks\.splunk\.token_file cannot be used"):
        SplunkReceiver(config.Splunk(url="https://x", token_file=tmp_path / "absent"))
    (tmp_path / "token").write_text("", "utf-8")
    with pytest.raises(ConfigError, match="one line without blanks"):
        SplunkReceiver(config.Splunk(url="https://x", token_file=tmp_path / "token"))
    (tmp_path / "token").write_text("t", "utf-8")
    with pytest.raises(ConfigError, match=r"sinks\.splunk\.ca_file"):
        SplunkReceiver(config.Splunk(url="https://x", token_file=tmp_path / "token", ca_file=tmp_path / "token"))


async def test_nobody_there_is_said_in_plain_words(tmp_path: Path) -> None:
    """The reason of the system."""
    splunk = receiver("http://127.0.0.1:9", tmp_path)
    with pytest.raises(SinkError, match="refused"):
        await splunk.send([EVENT])
    await splunk.close()
