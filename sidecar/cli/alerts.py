"""`sidecar alerts`: tests the receiver of alerts."""

from __future__ import annotations

from pathlib import Path

import click

from sidecar.cli import output
from sidecar.cli.common import CONFIG, async_command, load_settings
from sidecar.errors import ConfigError
from sidecar.observability.alert_webhook import AlertWebhook

SENDER = "the command line"


@click.group(short_help="Test the receiver of alerts.")
def alerts() -> None:
    """Alerts to the webhook of the settings (`alerts`)."""


@alerts.command("test", short_help="Send a test alert.")
@CONFIG
@async_command
async def test_alert(config_file: Path | None) -> int:
    """Send a test alert to the receiver and say whether it was taken. Exit code 0: it was, 1: it was not."""
    settings = load_settings(config_file)
    if not settings.alerts.enabled:
        raise ConfigError("there is no receiver", ["set alerts.url_file or alerts.url"])
    webhook = AlertWebhook(settings.alerts)
    try:
        problem = await webhook.test(SENDER)
    finally:
        await webhook.close()
    output.err.print(f"not sent: {problem}" if problem else "sent: look for it at the receiver", markup=False)
    return 1 if problem else 0
