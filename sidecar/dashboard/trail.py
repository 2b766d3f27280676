"""Audit: who changed what, when and from where."""

from __future__ import annotations

from urllib.parse import urlencode

from aiohttp import web

from sidecar.dashboard.guard import Route, Visit
from sidecar.dashboard.refresh import refreshed

PAGE = 100


class Trail:
    """The page of the audit trail, for admins."""

    def routes(self) -> list[Route]:
        """The route of this page."""
        return [Route("GET", "/audit", self.show)]

    async def show(self, visit: Visit) -> web.Response:
        """The newest entries, filtered, page by page."""
        form = visit.query
        actor, action = form.text("actor"), form.text("action")
        before = form.whole("before", 1, 2**31 - 1)
        events = await visit.store.audit.query(actor=actor, action=action, before=before, limit=PAGE + 1)
        older = (
            urlencode({"actor": actor, "action": action, "before": events[PAGE - 1].id}) if len(events) > PAGE else None
        )
        actions = await visit.store.audit.actions()
        chosen = {"actor": actor, "action": action}
        answer = visit.page("audit.html", events=events[:PAGE], actions=actions, older=older, chosen=chosen)
        return refreshed(answer, form)
