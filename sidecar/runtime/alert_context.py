"""What an alert is about: the key and the rule that lead in its decisions, and a link to them; no text of a prompt."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sidecar.dashboard.periods import MINUTE, decisions_in
from sidecar.errors import StoreError
from sidecar.observability.watcher import WINDOW, Alert
from sidecar.storage import Filter, Group, Store

LONGEST_WAIT = 5.0
MAX_NAME = 80
"""Characters of a name in a message."""
CRITERIA: dict[str, dict[str, Any]] = {"block_spike": {"recommended": "block"}, "fail_open": {"outcome": "unscanned"}}
"""The alerts that are about decisions, and which ones."""


@dataclass(frozen=True, slots=True)
class AlertContext:
    """Adds to alerts. `url`: the public address of the dashboard (`admin.url`); `flush`: as in `store.flush`, seconds.

    Without the store an alert is sent as it is.
    """

    store: Store
    url: str | None
    flush: float

    async def describe(self, alert: Alert) -> Alert:
        """The alert with its leaders and its link, as far as they can be told."""
        criteria = CRITERIA.get(alert.name)
        if criteria is None or alert.state == "resolved":
            return replace(alert, link=self._link("/"))
        await asyncio.sleep(min(2 * self.flush, LONGEST_WAIT))
        now = datetime.now(UTC)
        since = now - timedelta(seconds=WINDOW)
        leaders: dict[str, object] = {}
        with suppress(StoreError):
            leaders = await self._leaders(Filter(since=since, **criteria))
        link = self._link(decisions_in(since, now + MINUTE, **criteria))
        words = [f"{name} {leaders[name]}" for name in ("key", "team", "rule") if name in leaders]
        summary = f"{alert.summary}; most by {', '.join(words)}" if words else alert.summary
        return replace(alert, summary=summary, details=alert.details | leaders, link=link)

    async def _leaders(self, criteria: Filter) -> dict[str, object]:
        """The key with most of the decisions, its team, and the rule that matched most of them."""
        leaders: dict[str, object] = {}
        if groups := await self.store.analytics.by("key_id", criteria):
            leaders |= await self._key(groups[0])
        if rules := await self.store.analytics.by_rule(criteria):
            leaders["rule"] = str(rules[0].name)[:MAX_NAME]
        return leaders

    async def _key(self, group: Group) -> dict[str, object]:
        if group.name is None:
            return {"key": "none"}
        key = await self.store.keys.of_teams(group.name, None)
        if key is None:
            return {"key": group.name}
        team: dict[str, object] = {"team": key.team} if key.team else {}
        return {"key": key.name[:MAX_NAME], "key_id": key.id} | team

    def _link(self, path: str) -> str | None:
        return self.url.rstrip("/") + path if self.url else None
