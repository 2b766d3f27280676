"""The page of alerts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dashboard
import pytest

from sidecar.dashboard.dashboard import Dependencies
from sidecar.observability.alert_history import SentAlert
from sidecar.storage import Store

FAILED = SentAlert(1_777_000_000.0, "block_spike", "firing", "failed", "<b>15</b> blocks", "HTTP 503")
SENT = FAILED._replace(at=1_777_000_060.0, name="degraded", outcome="sent", reason="")


def with_alerts(deps: Dependencies, *alerts: SentAlert) -> Dependencies:
    """The dependencies of a process that sent these, with a receiver that takes nothing from eve."""

    async def send(name: str) -> str | None:
        return "connection refused" if name == "eve" else None

    status = replace(deps.status(), alerts=alerts)
    return replace(deps, status=lambda: status, test_alert=send)


@pytest.fixture
async def deps(tmp_path: Path, store: Store) -> Dependencies:
    """A dashboard with a receiver of alerts, on both databases."""
    return dashboard.dependencies(dashboard.settings(tmp_path, alerts={"url": "https://hooks.example/hush"}), store)


async def admin(deps: Dependencies, base: str, name: str) -> dashboard.Visitor:
    """A logged-in admin."""
    visitor = dashboard.Visitor(base)
    await visitor.enter(deps.store, name, dashboard.Role.ADMIN)
    return visitor


async def test_the_newest_alerts_are_listed_with_their_outcome(deps: Dependencies) -> None:
    """The address of the receiver is not shown, and summaries are escaped."""
    async with dashboard.serve(with_alerts(deps, SENT, FAILED)) as base:
        visitor = await admin(deps, base, "ada")
        page = await visitor.get("/alerts")
        await visitor.session.close()
    assert "degraded firing sent <b>15</b> blocks" in page.text
    assert "block spike firing failed HTTP 503" in page.text
    assert "b" not in page.reader.tags
    assert "hush" not in page.body


async def test_an_admin_sends_a_test(deps: Dependencies) -> None:
    """The page says how it went, and so does the audit trail."""
    async with dashboard.serve(with_alerts(deps)) as base:
        ada, eve = await admin(deps, base, "ada"), await admin(deps, base, "eve")
        sent, failed = [await visitor.post("/alerts/test", page="/alerts") for visitor in (ada, eve)]
        assert "The test alert was sent" in (await ada.get(sent.location)).text
        for visitor in (ada, eve):
            await visitor.session.close()
    assert (failed.status, "could not be sent: connection refused" in failed.text) == (502, True)
    events = [(event.actor, event.action, event.detail) for event in await deps.store.audit.query(limit=2)]
    assert events == [("eve", "alert_tested", "connection refused"), ("ada", "alert_tested", "sent")]


async def test_without_a_receiver_the_page_says_so(site: dashboard.DashboardSite) -> None:
    """A test is refused, and others than admins see no alerts, since they name keys of all teams."""
    page = await site.ada.get("/alerts")
    assert "no alert is sent" in page.text
    token = {"csrf": (await site.ada.get("/users")).csrf}
    assert "no receiver" in (await site.ada.post("/alerts/test", token)).text
    assert [(await visitor.get("/alerts")).status for visitor in (site.oda, site.vic)] == [403, 403]
