"""Twin of sidecar/observability/alert_webhook.py, against a local receiver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar import config
from sidecar.errors import ConfigError
from sidecar.observability.alert_history import MAX_ALERTS
from sidecar.observability.alert_webhook import MAX_WAITING, AlertWebhook, read_url
from sidecar.observability.metrics import REGISTRY
from sidecar.observability.watcher import Alert

ALERT = Alert("block_spike", "20 blocks <within> five minutes & more", details={"blocks": 20.0})


class Receiver:
    """Keeps what it gets; answers with these statuses first."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.bodies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def take(self, request: web.Request) -> web.Response:
        """One message."""
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.bodies.put_nowait(await request.json())
        return web.Response(status=status)

    async def next(self) -> dict[str, Any]:
        """The next message that was taken."""
        return await asyncio.wait_for(self.bodies.get(), 30)


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    """A running receiver and its address."""
    receiver, app = Receiver(), web.Application()
    app.router.add_post("/hush", receiver.take)
    async with TestServer(app) as server:
        yield receiver, str(server.make_url("/hush"))


def counted(outcome: str) -> float:
    """The messages with this outcome."""
    return REGISTRY.get_sample_value("sidecar_alerts_total", {"alert": "block_spike", "outcome": outcome}) or 0.0


async def test_the_plain_form_has_everything_by_name(receiver: tuple[Receiver, str]) -> None:
    """For a receiver of one's own."""
    webhook = AlertWebhook(config.Alerts(url=receiver[1], instance="shop-1"))
    webhook.send(ALERT)
    body = await receiver[0].next()
    assert (body["alert"], body["state"], body["severity"], body["instance"]) == (
        "block_spike",
        "firing",
        "warning",
        "shop-1",
    )
    assert body["details"] == {"blocks": 20.0}
    await webhook.close()


async def test_slack_gets_one_line_that_it_cannot_misread(receiver: tuple[Receiver, str]) -> None:
    """Its control characters are escaped."""
    webhook = AlertWebhook(config.Alerts(url=receiver[1], format="slack", instance="shop-1"))
    webhook.send(ALERT)
    body = await receiver[0].next()
    assert set(body) == {"text"}
    assert "block_spike (firing) on shop-1: 20 blocks &lt;within&gt; five minutes &amp; more" in body["text"]
    await webhook.close()


async def test_a_receiver_that_is_busy_is_asked_again(
    receiver: tuple[Receiver, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The address is in no line of the log."""
    receiver[0].statuses = [503]
    before = counted("sent")
    webhook = AlertWebhook(config.Alerts(url=receiver[1]))
    webhook.send(ALERT)
    await receiver[0].next()
    await asyncio.sleep(0.1)
    assert counted("sent") - before == 1
    assert "hush" not in "".join(capsys.readouterr())
    await webhook.close()


async def test_too_many_at_once_are_dropped_and_counted() -> None:
    """A receiver that is away cannot fill the memory."""
    before = counted("dropped")
    webhook = AlertWebhook(config.Alerts(url="http://127.0.0.1:9/hush"))
    for _ in range(MAX_WAITING + 3):
        webhook.send(ALERT)
    assert counted("dropped") - before == 3
    await webhook.close()
    await asyncio.sleep(0)
    assert counted("dropped") - before == MAX_WAITING + 3, "those that still waited, too"


def test_the_address_may_be_in_a_file(tmp_path: Path) -> None:
    """A file that is absent or holds something else is an error, which does not show its content."""
    (tmp_path / "hook").write_text("https://hooks.example/hush\n", "utf-8")
    assert read_url(config.Alerts(url_file=tmp_path / "hook")) == "https://hooks.example/hush"
    (tmp_path / "hook").write_text("hush", "utf-8")
    with pytest.raises(ConfigError, match=r"alerts\.url_file cannot be used") as raised:
        read_url(config.Alerts(url_file=tmp_path / "hook"))
    assert "hush" not in str(raised.value)
    with pytest.raises(ConfigError, match=r"alerts\.url_file cannot be used"):
        read_url(config.Alerts(url_file=tmp_path / "absent"))


async def test_a_test_is_sent_at_once_and_kept_with_its_outcome(receiver: tuple[Receiver, str]) -> None:
    """The newest comes first; a failure has its reason, which is not the address."""
    receiver[0].statuses = [503]
    webhook = AlertWebhook(config.Alerts(url=receiver[1]))
    assert await webhook.test("ada") == "HTTP 503"
    assert await webhook.test("ada") is None
    assert "A test by ada" in (await receiver[0].next())["summary"]
    kept = [(alert.name, alert.outcome, alert.reason) for alert in webhook.history]
    assert kept == [("test", "sent", ""), ("test", "failed", "HTTP 503")]
    await webhook.close()


async def test_alerts_are_kept_with_their_outcome_within_a_bound(receiver: tuple[Receiver, str]) -> None:
    """Those that were sent, and those that were dropped."""
    webhook = AlertWebhook(config.Alerts(url=receiver[1]))
    for _ in range(MAX_ALERTS + MAX_WAITING + 5):
        webhook.send(replace(ALERT, summary="x" * 1_000))
    await receiver[0].next()
    assert len(webhook.history) == MAX_ALERTS
    assert {alert.outcome for alert in webhook.history} <= {"dropped", "sent"}
    assert {len(alert.summary) for alert in webhook.history} == {300}
    await webhook.close()


async def test_a_link_is_a_field_and_in_slack_a_link(receiver: tuple[Receiver, str]) -> None:
    """Without one there is neither."""
    linked = replace(ALERT, link="https://sidecar.example/decisions?since=a&recommended=block")
    for form in ("json", "slack"):
        webhook = AlertWebhook(config.Alerts(url=receiver[1], format=form))
        webhook.send(linked)
        body = await receiver[0].next()
        if form == "json":
            assert body["link"] == linked.link
        else:
            assert body["text"].endswith(" <https://sidecar.example/decisions?since=a&amp;recommended=block|Dashboard>")
        await webhook.close()
