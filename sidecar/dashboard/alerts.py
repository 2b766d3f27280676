"""Alerts: the newest messages to the webhook, whether each was sent, and a test of the receiver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from sidecar.dashboard.forms import refused
from sidecar.dashboard.guard import Route, Visit, to
from sidecar.dashboard.refresh import refreshed
from sidecar.dashboard.service_status import ServiceStatus
from sidecar.errors import RequestError

SendTest = Callable[[str], Awaitable[str | None]]


class AlertsPage:
    """The page of alerts, for admins: summaries name keys of all teams."""

    def __init__(self, status: Callable[[], ServiceStatus], send_test: SendTest | None) -> None:
        """`send_test`: sends a test alert by a user, and returns why it failed; None without a receiver."""
        self._status, self._send_test = status, send_test

    def routes(self) -> list[Route]:
        """The routes of this page."""
        return [Route("GET", "/alerts", self.show), Route("POST", "/alerts/test", self.test)]

    async def show(self, visit: Visit) -> web.Response:
        """The newest alerts of all workers of this process since its start."""
        return refreshed(self._page(visit), visit.query)

    def _page(self, visit: Visit, error: RequestError | None = None) -> web.Response:
        service = self._status()
        values = {
            "alerts": service.alerts,
            "settings": service.settings.alerts,
            "has_address": bool(service.settings.admin.url),
            "error": error,
            "done": visit.query.text("done"),
        }
        return visit.page("alerts.html", error.status if error else 200, **values)

    async def test(self, visit: Visit) -> web.Response:
        """Send a test alert and wait for its outcome."""
        if self._send_test is None:
            return self._page(visit, refused(400, "There is no receiver: set alerts.url_file or alerts.url."))
        problem = await self._send_test(visit.name)
        await visit.note("alert_tested", detail=problem or "sent")
        if problem:
            return self._page(visit, refused(502, f"The test alert could not be sent: {problem}."))
        return to("/alerts", "sent")
