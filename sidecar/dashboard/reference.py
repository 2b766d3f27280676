"""Reference: the description of the sidecar's APIs, which needs no login, in the frame of the dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from markupsafe import Markup

from sidecar.dashboard.guard import Route, Visit


class Reference:
    """The page of the APIs. `content`: its HTML, which is ours and holds nothing of a client."""

    def __init__(self, content: Callable[[], str]) -> None:
        self._content = content

    def routes(self) -> list[Route]:
        """The route of this page."""
        return [Route("GET", "/reference", self.show)]

    async def show(self, visit: Visit) -> web.Response:
        """Every route with its fields and responses."""
        content = await asyncio.to_thread(self._content)
        return visit.page("reference.html", content=Markup(content))  # noqa: S704 - rendered by our own template
