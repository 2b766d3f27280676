"""`sidecar serve`: one process, or several on one port, until SIGTERM."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from sidecar import __version__, config, policy
from sidecar.cli import common, greeting
from sidecar.cli.common import CONFIG, async_command, load_settings
from sidecar.cli.setting_warnings import warnings
from sidecar.dashboard import base_url, bootstrap
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import SidecarError, StoreError
from sidecar.limits.processors import available
from sidecar.observability.worker_reports import WorkerReports
from sidecar.policy.reductions import reductions
from sidecar.policy.switches import apply_switches
from sidecar.runtime import app, malloc
from sidecar.runtime.waiting import opened
from sidecar.runtime.workers import fork_workers
from sidecar.util import logs
from sidecar.util.shared_slots import SharedSlots
from sidecar.util.signals import stop_on_signal

MAX_WORKERS = 64


class Workers(click.ParamType[int]):
    """A number of processes, or `auto`: one for each processor that this process may use."""

    name = "workers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Raises `click.UsageError`."""
        if value == "auto":
            return min(available(), MAX_WORKERS)
        with suppress(ValueError):
            if 1 <= int(value) <= MAX_WORKERS:
                return int(value)
        raise click.BadParameter(f"{value!r} is neither a number from 1 to {MAX_WORKERS} nor auto", ctx, param)


@click.command(short_help="Serve the scan API and the inline proxy.")
@CONFIG
@click.option(
    "--workers",
    type=Workers(),
    metavar=f"1-{MAX_WORKERS}|auto",
    default=1,
    show_default=True,
    help="Processes on one port; auto: one for each processor that this process may use, by a container's limit, too.",
)
@click.option(
    "--first-key/--no-first-key",
    default=True,
    help="Print the addresses, and a first API key and link to the dashboard when the store holds none.",
)
@click.option("--host", hidden=True, expose_value=False, callback=common.names_setting("listen.host"))
@click.option("--port", hidden=True, expose_value=False, callback=common.names_setting("listen.port"))
def serve(config_file: Path | None, workers: int, first_key: bool) -> None:
    """Serve the scan API and the inline proxy until SIGTERM.

    By default on 127.0.0.1:8080, and the dashboard on 127.0.0.1:8081. Ports and all else are settings, in config.yaml
    or in the environment: SIDECAR__LISTEN__PORT=9000 is listen.port.
    """
    malloc.tune()
    number, reports = 0, None
    if workers > 1:
        _shared, slots = _loaded(config_file), SharedSlots(workers)
        malloc.trim()
        number = fork_workers(workers, lambda worker: bool(slots.read(worker)))
        reports = WorkerReports(slots, number)
        logs.name_worker(number)
    _serve(config_file, reports, first_key=first_key and not number)


def _loaded(config_file: Path | None) -> object:
    """Load what all workers share before the fork; errors are reported by each worker itself."""
    with suppress(SidecarError):
        settings = load_settings(config_file)
        return (
            RulesLayer(apply_switches(policy.load(settings.policies), settings.rules))
            if settings.layers.rules.enabled
            else None
        )
    return None


@async_command
async def _serve(config_file: Path | None, reports: WorkerReports | None, *, first_key: bool) -> int:
    settings = load_settings(config_file)
    stop = stop_on_signal()
    for warning in warnings(settings):
        logs.get("cli").warning("setting_risky", setting=warning)
    source = config_file or Path("config.yaml")
    facts = {"upstream": settings.upstream.url, "mode": settings.mode, "settings": greeting.settings_source(source)}
    reasons = dict.fromkeys(reduction.reason for reduction in reductions(settings))
    protection = f"reduced: {', '.join(reasons)}" if reasons else "as by default"
    logs.get("cli").info("start_begun", version=__version__, **facts, protection=protection)

    def make() -> app.Sidecar:
        return app.Sidecar(settings, reports=reports, config_file=source, read=lambda: config.load(config_file))

    async with opened(make, settings, stop, reports) as running:
        if running is None:
            return 0
        app.reload_on_signal(running)
        malloc.trim()
        if first_key:
            try:
                await _greet(running, config_file)
            except StoreError as error:  # no reason to stop: it serves, and the next start prints what is missing
                logs.get("cli").warning("greeting_incomplete", error=error)
        await stop.wait()
    return 0


async def _greet(running: app.Sidecar, config_file: Path | None) -> None:
    """Print what is in force, a first key and the dashboard's first link, where there are none yet."""
    api_keys, dashboard = await running.keyring.list(), base_url(running.settings, running.admin_port)
    greeting.greet(running.settings, running.data_port, dashboard, config_file or Path("config.yaml"))
    if api_keys:
        greeting.show_number_of_keys(len(api_keys), config_file)
    else:
        _, value = await running.keyring.create("first key", environment="development")
        greeting.show_first_key(value, running.settings, running.data_port, config_file)
    if link := await bootstrap(running.store, dashboard):
        greeting.show_link(link)
