"""Shared by all commands: settings, durations, JSON output, and exit codes for errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import click
import uvloop

from sidecar import config
from sidecar.cli import output
from sidecar.config import Settings
from sidecar.config.sources import variable
from sidecar.errors import ProblemsError, SidecarError
from sidecar.util import json, logs
from sidecar.util.units import parse_duration

P = ParamSpec("P")
CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Settings [default: config.yaml in this folder, if there is one]",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


def async_command(function: Callable[P, Coroutine[Any, Any, int]]) -> Callable[P, None]:
    """Run an async command; a `SidecarError` ends in one message and exit code 2."""

    @wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = uvloop.run(function(*args, **kwargs))
        except SidecarError as error:
            if logs.is_json():
                logs.get("cli").error(
                    "command_failed", reason=str(error).partition("\n")[0], problems=problems_of(error)
                )
            else:
                output.err.print(str(error), style="red", markup=False)
            code = 2
        except KeyboardInterrupt:
            code = 130
        sys.exit(code)

    return command


def problems_of(error: SidecarError) -> list[str]:
    """The single problems of an error that has several."""
    return list(error.problems) if isinstance(error, ProblemsError) else []


class Duration(click.ParamType[timedelta]):
    """`30s`, `15m`, `24h`, `90d`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Parse the argument; the error message names valid forms."""
        try:
            return timedelta(seconds=parse_duration(value))
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)


def names_setting(setting: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    """The callback of an option that people try and that is a setting: its error says how to write that."""

    def refuse(_context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            option = parameter.opts[0]
            raise click.UsageError(f"{option} is the setting {setting}: config.yaml, or {variable(setting)}={value}")

    return refuse


def load_settings(path: Path | None) -> Settings:
    """Load the settings and configure the logs as they say."""
    # Before the settings are read: a problem with them is reported in the form that the environment names.
    if os.environ.get("SIDECAR__LOG__FORMAT") == "json":
        logs.configure("json", "info")
    settings = config.load(path)
    logs.configure(settings.log.format, settings.log.level)
    return settings


def emit(value: object) -> None:
    """Write JSON to standard output."""
    click.echo(json.dumps(value, option=json.INDENTED).decode())
