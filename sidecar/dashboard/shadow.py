"""Shadow: decisions on which a second, non-enforcing policy set disagrees."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from aiohttp import web

from sidecar.dashboard.forms import refused
from sidecar.dashboard.guard import Route, Visit
from sidecar.dashboard.refresh import refreshed
from sidecar.dashboard.service_status import ServiceStatus

PAGE = 100


class ShadowPage:
    """The page of disagreements."""

    def __init__(self, status: Callable[[], ServiceStatus]) -> None:
        self._status = status

    def routes(self) -> list[Route]:
        """The route of this page."""
        return [Route("GET", "/shadow", self.show)]

    async def show(self, visit: Visit) -> web.Response:
        """The disagreements, the newest first, page by page, and their counts by kind."""
        revision, before = visit.query.text("revision") or None, visit.query.text("before")
        disagreements = visit.store.disagreements
        last = await disagreements.get(before, visit.teams) if before else None
        if before and last is None:
            raise refused(404, "The page to go on from is gone; begin at the newest.")
        rows = await disagreements.query(other_revision=revision, before=last, limit=PAGE + 1, teams=visit.teams)
        filters = {"revision": revision} if revision else {}
        counts = await disagreements.count(visit.teams)
        names = {key.id: key.name for key in await visit.keys()}
        answer = visit.page(
            "shadow.html",
            policies=self._status().settings.shadow.policies,
            disagreements=rows[:PAGE],
            older=urlencode({**filters, "before": rows[PAGE - 1].decision}) if len(rows) > PAGE else None,
            counts=sorted(counts.items()),
            names=names,
        )
        return refreshed(answer, visit.query)
