"""Opens what the sidecar sends by itself: the receivers of decisions and the alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import monotonic

from sidecar import config
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.decision_log.sink import Receiver, Sink
from sidecar.decision_log.splunk import SplunkReceiver
from sidecar.decision_log.syslog import SyslogReceiver
from sidecar.errors import StoreError
from sidecar.observability.alert_webhook import AlertWebhook
from sidecar.observability.watcher import Problems, Reductions, Watcher
from sidecar.runtime.alert_context import AlertContext
from sidecar.storage import Store
from sidecar.util.tasks import Background

FULLNESS_INTERVAL = 60.0


@asynccontextmanager
async def sinks(settings: config.Sinks) -> AsyncIterator[Sequence[Sink]]:
    """The receivers of decisions that the settings name, sending. Raises `ConfigError`."""
    async with AsyncExitStack() as stack:
        opened = []
        for kind, address in ((_splunk, settings.splunk.url), (_syslog, settings.syslog.url)):
            if address is not None:
                sink = Sink(kind(settings), queue=settings.queue, batch=settings.batch)
                stack.push_async_callback(sink.close)
                opened.append(sink)
        for sink in opened:
            sink.start()
        yield opened


def _splunk(settings: config.Sinks) -> Receiver:
    return SplunkReceiver(settings.splunk)


def _syslog(settings: config.Sinks) -> Receiver:
    return SyslogReceiver(settings.syslog)


@asynccontextmanager
async def alerts(
    settings: Settings, problems: Problems, reductions: Reductions, decision_log: DecisionLog, store: Store
) -> AsyncIterator[AlertWebhook | None]:
    """Watch the process and send alerts, if there is a receiver. Raises `ConfigError`."""
    if not settings.alerts.enabled:
        yield None
        return
    webhook, background = AlertWebhook(settings.alerts), Background()

    latest = (-FULLNESS_INTERVAL, 0.0)

    async def fullness() -> float:
        nonlocal latest
        if monotonic() - latest[0] >= FULLNESS_INTERVAL:  # counting the rows of a large log takes its time
            with suppress(StoreError):  # that it is away is an alert of its own
                latest = (monotonic(), await decision_log.fullness())
        return latest[1]

    context = AlertContext(store, settings.admin.url, settings.store.flush)
    watcher = Watcher(settings.alerts, problems, fullness, reductions, webhook.send, context.describe)
    background.repeat("alerts_look", watcher.look, settings.alerts.interval)
    try:
        yield webhook
    finally:
        await background.close()
        await webhook.close()
