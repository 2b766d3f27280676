"""What every command shares."""

from __future__ import annotations

from datetime import timedelta

import click
import pytest
from click.testing import CliRunner

from sidecar.cli.common import Duration, async_command, emit
from sidecar.errors import ConfigError


@click.command()
@click.argument("length", type=Duration())
@async_command
async def wait(length: timedelta) -> int:
    """Say how long, or fail in one of the known ways."""
    if not length:
        raise ConfigError("nothing to wait for", ["it is 0s"])
    if length > timedelta(days=1):
        raise KeyboardInterrupt
    emit({"seconds": length.total_seconds()})
    return 1


@pytest.mark.parametrize(
    ("argument", "code", "message"),
    [
        ("15m", 1, '"seconds": 900.0'),
        ("0s", 2, "nothing to wait for\n  - it is 0s"),
        ("2d", 130, ""),
        ("soon", 2, "write it like"),
        ("99999999999999d", 2, ""),
    ],
)
def test_errors_become_exit_codes_and_one_message(argument: str, code: int, message: str) -> None:
    """The command's own code, 2 for what this program raises or cannot read, 130 for Ctrl-C; no traceback."""
    outcome = CliRunner().invoke(wait, [argument])
    assert outcome.exit_code == code
    assert message in outcome.output
    assert "Traceback" not in outcome.output
