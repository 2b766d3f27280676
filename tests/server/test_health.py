"""Tests `sidecar.server.health`."""

from __future__ import annotations

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidecar.observability.alert_history import SentAlert
from sidecar.observability.worker_reports import Status, WorkerReports
from sidecar.server.health import Readiness, admin_routes
from sidecar.util.shared_slots import SharedSlots


async def get(app: web.Application, path: str) -> tuple[int, str]:
    """Status and text of one GET."""
    async with TestServer(app) as server, ClientSession() as session, session.get(server.make_url(path)) as answer:
        return answer.status, await answer.text()


def admin(problems: list[str], degraded: tuple[str, ...] = ()) -> web.Application:
    """An admin application with these problems."""
    app = web.Application()
    app.add_routes(admin_routes(Readiness(lambda: problems, lambda: degraded, lambda: "abc123")))
    return app


async def test_ready_says_that_the_newest_alert_was_not_sent() -> None:
    """As a degradation: traffic goes on."""
    failed = SentAlert(1.0, "block_spike", "firing", "failed", reason="HTTP 503")
    app = web.Application()
    app.add_routes(admin_routes(Readiness(list, list, lambda: "abc123", alerts=lambda: [failed])))
    status, text = await get(app, "/ready")
    assert (status, "newest alert (block_spike) could not be sent: HTTP 503" in text) == (200, True)


async def test_ready_says_why_not() -> None:
    """503 with the problems if there are any, else 200, with the policy revision."""
    status, text = await get(admin(["draining"]), "/ready")
    assert (status, "draining" in text) == (503, True)
    status, text = await get(admin([], ("semantic layer missing",)), "/ready")
    assert (status, '"degraded"' in text, "missing" in text) == (200, True, True)
    status, text = await get(admin([]), "/ready")
    assert (status, "abc123" in text) == (200, True)


async def test_a_start_is_over_once_whatever_is_amiss_later() -> None:
    """/startup is 503 while starting and 200 afterwards, so that a drain does not look like a failed start."""
    assert await get(admin(["starting", "waits"]), "/startup") == (503, '{"status": "starting", "problems": ["waits"]}')
    assert (await get(admin(["draining", "scan log cannot be written"]), "/startup"))[0] == 200


async def test_a_worker_that_waits_answers_for_those_that_serve() -> None:
    """Its own reason as long as no worker serves; then the state of the others, since they share the port."""
    slots, app = SharedSlots(2), web.Application()
    waiting = Readiness(lambda: ["starting", "waits"], list, str, reports=WorkerReports(slots, 0))
    app.add_routes(admin_routes(waiting))
    assert await get(app, "/startup") == (503, '{"status": "starting", "problems": ["waits"]}')
    WorkerReports(slots, 1).publish(Status())
    assert (waiting.status().problems, waiting.status().starting) == ([], False)


async def test_health_asks_no_dependency() -> None:
    """/health is 200 regardless of problems."""
    assert await get(admin(["everything"]), "/health") == (200, '{"status": "ok"}')


async def test_metrics_are_in_prometheus_format() -> None:
    """The metrics of this process have help texts."""
    status, text = await get(admin([]), "/metrics")
    assert status == 200
    assert "# HELP sidecar_decisions_total" in text
