"""What every command shares."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support import sidecar

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


def test_what_ends_a_command_is_json_where_the_log_is(tmp_path: Path) -> None:
    """A wrong setting is not lost in a pipeline of JSON: one line, with the single problems."""
    (tmp_path / "config.yaml").write_text("scan:\n  treshold: 1\nmode: observe\n", "utf-8")
    ended = sidecar(tmp_path, "serve", SIDECAR__LOG__FORMAT="json")
    (line,) = ended.stderr.splitlines()
    event = json.loads(line)
    assert (ended.returncode, event["event"], event["level"]) == (2, "command_failed", "error")
    assert (len(event["problems"]), "did you mean" in event["problems"][1]) == (2, True)
