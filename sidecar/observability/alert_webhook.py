"""Sends alerts to a webhook, as JSON of our own form or as Slack's, in the background, with a few attempts each.

The receiver's address is a secret, so no log line, metric or error holds it.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout

from sidecar import __version__, config
from sidecar.config.secret_files import problem, read_secret
from sidecar.observability.alert_history import MAX_ALERTS, Outcome, SentAlert, newest
from sidecar.observability.metrics import ALERTS
from sidecar.observability.watcher import Alert
from sidecar.util import json, logs
from sidecar.util.connections import describe_connection
from sidecar.util.tasks import Background

ATTEMPTS, FIRST_PAUSE, SECONDS = 4, 2.0, 10.0
MAX_WAITING = 20
MAX_SUMMARY = 300
"""Characters of a summary that are kept."""
_ICONS = {"critical": ":red_circle:", "warning": ":large_orange_circle:", "info": ":large_blue_circle:"}
_log = logs.get("alerts")
Body = dict[str, object]


class AlertWebhook:
    """One receiver. `send` never waits; close it at the end."""

    def __init__(self, settings: config.Alerts) -> None:
        """Raises `ConfigError` if the file with the address cannot be used."""
        self._settings, self._url = settings, read_url(settings)
        self._instance = settings.instance or socket.gethostname()
        self._session = ClientSession(timeout=ClientTimeout(total=SECONDS))
        self._background, self._waiting = Background(), 0
        self._history: deque[SentAlert] = deque(maxlen=MAX_ALERTS)

    @property
    def history(self) -> Sequence[SentAlert]:
        """The newest alerts with their outcomes, the newest first."""
        return newest(self._history)

    def send(self, alert: Alert) -> None:
        """Send soon. One too many is dropped and counted."""
        _log.warning("alert_raised", alert=alert.name, state=alert.state, summary=alert.summary)
        if self._waiting >= MAX_WAITING:
            self._keep(alert, "dropped", "too many wait")
            return
        self._waiting += 1
        self._background.spawn(self._deliver(alert)).add_done_callback(partial(self._done, alert))

    async def test(self, sender: str) -> str | None:
        """Send a test alert now, once; why it was not taken, or None. It is no alert that the metric counts."""
        alert = Alert("test", f"A test by {sender}: alerts reach this receiver.", severity="info")
        problem = await self._post(FORMATS[self._settings.format](alert, self._instance))
        self._note(alert, "failed" if problem else "sent", problem or "")
        return problem

    async def close(self) -> None:
        """Drop what waits, which is counted, and close connections."""
        await self._background.close()
        await self._session.close()

    def _done(self, alert: Alert, delivery: asyncio.Task[str | None]) -> None:
        self._waiting -= 1
        if delivery.cancelled():
            self._keep(alert, "dropped", "the process ended")
        else:
            self._keep(alert, "failed" if delivery.result() else "sent", delivery.result() or "")

    def _keep(self, alert: Alert, outcome: Outcome, reason: str) -> None:
        ALERTS.labels(alert.name, outcome).inc()
        self._note(alert, outcome, reason)

    def _note(self, alert: Alert, outcome: Outcome, reason: str) -> None:
        summary = alert.summary[:MAX_SUMMARY]
        self._history.append(SentAlert(time.time(), alert.name, alert.state, outcome, summary, reason))

    async def _deliver(self, alert: Alert) -> str | None:
        """Send it, several times if need be; why it was not taken, or None."""
        body = FORMATS[self._settings.format](alert, self._instance)
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            problem = await self._post(body)
            if problem is None:
                return None
        _log.error("alert_not_sent", alert=alert.name, reason=problem)
        return problem

    async def _post(self, body: Body) -> str | None:
        """Why it was not taken; None if it was."""
        headers = {"Content-Type": "application/json", "User-Agent": f"prompt-sidecar/{__version__}"}
        data = json.dumps(body)
        try:
            async with self._session.post(self._url, data=data, headers=headers, allow_redirects=False) as answer:
                return None if answer.status < 300 else f"HTTP {answer.status}"
        except (ClientError, TimeoutError, OSError) as error:
            return describe_connection(error)


def read_url(settings: config.Alerts) -> str:
    """The receiver's address. Raises `ConfigError`, without the address in it."""
    if settings.url is not None:
        return settings.url
    file = Path(str(settings.url_file))
    url = read_secret(file, "alerts.url_file")
    try:
        return config.Alerts(url=url).url or ""
    except ValueError:
        raise problem("alerts.url_file", file, "must hold http://HOST/PATH or https://HOST/PATH") from None


def _plain(alert: Alert, instance: str) -> Body:
    return {
        "source": "prompt-sidecar",
        "version": __version__,
        "instance": instance,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "alert": alert.name,
        "state": alert.state,
        "severity": alert.severity,
        "summary": alert.summary,
        "details": alert.details,
        **({"link": alert.link} if alert.link else {}),
    }


def _slack(alert: Alert, instance: str) -> Body:
    icon = ":large_green_circle:" if alert.state == "resolved" else _ICONS[alert.severity]
    place, words = _escaped(instance), _escaped(alert.summary)
    link = f" <{_escaped(alert.link)}|Dashboard>" if alert.link else ""
    return {"text": f"{icon} *prompt-sidecar* {alert.name} ({alert.state}) on {place}: {words}{link}"}


def _escaped(text: str) -> str:
    """Slack's three control characters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FORMATS: dict[str, Callable[[Alert, str], Body]] = {"json": _plain, "slack": _slack}
