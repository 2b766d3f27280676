"""Twin of sidecar/runtime/alert_context.py, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dashboard
import pytest
from dashboard import FINDING

from sidecar.observability.watcher import Alert
from sidecar.runtime.alert_context import AlertContext
from sidecar.storage import Store

SPIKE = Alert("block_spike", "15 blocks within five minutes, 0 are usual", details={"blocks": 15.0})


async def fill(store: Store) -> None:
    """Three blocks of one key, one of none, and one of a key that was long ago."""
    await store.keys.add(dashboard.api_key("abcdefgh", "shop <prod>", "ads"), b"x" * 32)
    now, other = datetime.now(UTC), [FINDING | {"rule": "INJ-2"}]
    rows = [dashboard.log_row(n, at=now, key_id="abcdefgh", text="canary-7731") for n in range(3)]
    rows += [dashboard.log_row(3, at=now, findings=other)]
    rows += [dashboard.log_row(n, at=now - timedelta(hours=1), findings=other) for n in range(4, 12)]
    await store.decisions.add(rows)


async def test_many_blocks_name_key_team_rule_and_link(store: Store) -> None:
    """Of the same five minutes, and without text of a prompt."""
    await fill(store)
    alert = await AlertContext(store, "https://sidecar.example/", 0.0).describe(SPIKE)
    leaders = {"key": "shop <prod>", "key_id": "abcdefgh", "team": "ads", "rule": "INJ-1"}
    assert alert.details == {"blocks": 15.0, **leaders}
    assert alert.summary == f"{SPIKE.summary}; most by key shop <prod>, team ads, rule INJ-1"
    assert (alert.link or "").startswith("https://sidecar.example/decisions?since=")
    assert "recommended=block" in (alert.link or "")
    assert "canary" not in str(alert)


async def test_unscanned_requests_name_their_key(store: Store) -> None:
    """They have no rule; a key that was deleted has its id, and requests without a key say so."""
    now = datetime.now(UTC)
    row = dashboard.log_row(0, at=now, key_id="gonegone", findings=[], unscanned="deadline", action="allow")
    await store.decisions.add([row])
    context, alert = AlertContext(store, None, 0.0), Alert("fail_open", "requests were forwarded unscanned: deadline 1")
    assert (await context.describe(alert)).details == {"key": "gonegone"}
    await store.decisions.add([replace(row, id=f"dec_{n:026}", key_id=None) for n in (1, 2)])
    described = await context.describe(alert)
    assert (described.details, described.link) == ({"key": "none"}, None)


@pytest.mark.parametrize("url", [None, "https://sidecar.example"])
async def test_other_alerts_and_ends_lead_to_the_overview(store: Store, url: str | None) -> None:
    """Where the address of the dashboard is known."""
    for alert in (Alert("log_full", "x"), replace(SPIKE, state="resolved")):
        described = await AlertContext(store, url, 0.0).describe(alert)
        assert described == replace(alert, link=url and f"{url}/")


async def test_without_the_store_an_alert_is_sent_as_it_is(store: Store) -> None:
    """With its link alone."""
    await store.close()
    alert = await AlertContext(store, "https://sidecar.example", 0.0).describe(SPIKE)
    assert (alert.summary, alert.details) == (SPIKE.summary, SPIKE.details)
