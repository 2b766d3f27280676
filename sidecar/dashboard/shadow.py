"""Shadow: decisions on which a second, non-enforcing policy set disagrees."""

from __future__ import annotations

from aiohttp import web

from sidecar.dashboard.guard import Route, Visit

PAGE = 100


class ShadowPage:
    """The page of disagreements."""

    def routes(self) -> list[Route]:
        """The route of this page."""
        return [Route("GET", "/shadow", self.show)]

    async def show(self, visit: Visit) -> web.Response:
        """The newest disagreements, and their counts by kind."""
        revision = visit.query.text("revision") or None
        disagreements = await visit.store.disagreements.query(other_revision=revision, limit=PAGE)
        counts = await visit.store.disagreements.count()
        names = {key.id: key.name for key in await visit.store.keys.list()}
        return visit.page("shadow.html", disagreements=disagreements, counts=sorted(counts.items()), names=names)
