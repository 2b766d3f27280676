"""Shadow: decisions on which a second, non-enforcing policy set disagrees."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from sidecar.dashboard.guard import Route, Visit
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
        """The newest disagreements, and their counts by kind."""
        revision = visit.query.text("revision") or None
        disagreements = await visit.store.disagreements.query(other_revision=revision, limit=PAGE, teams=visit.teams)
        counts = await visit.store.disagreements.count(visit.teams)
        names = {key.id: key.name for key in await visit.keys()}
        return visit.page(
            "shadow.html",
            policies=self._status().settings.shadow.policies,
            disagreements=disagreements,
            counts=sorted(counts.items()),
            names=names,
        )
