"""`sidecar alerts` against a local receiver."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner, Result
from runtime.test_outbound import receiver

from sidecar.cli.alerts import alerts


def run(folder: Path, url: str | None) -> Result:
    """`alerts test` with this receiver."""
    (folder / "config.yaml").write_text(yaml.safe_dump({"alerts": {"url": url}}), "utf-8")
    return CliRunner().invoke(alerts, ["test", "--config", str(folder / "config.yaml")])


def test_a_test_alert_is_sent(tmp_path: Path) -> None:
    """The receiver gets it, and the command says that it was taken."""
    with receiver() as (url, got):
        result = run(tmp_path, f"{url}/hook")
    assert (result.exit_code, "sent" in result.stderr) == (0, True)
    assert '"alert":"test"' in got[0][1]


def test_a_receiver_that_is_away_is_told_without_its_address(tmp_path: Path) -> None:
    """Exit code 1; without a receiver 2."""
    result = run(tmp_path, "http://127.0.0.1:9/hush")
    assert (result.exit_code, "connection refused" in result.stderr, "hush" in result.output) == (1, True, False)
    result = run(tmp_path, None)
    assert (result.exit_code, "no receiver" in result.stderr) == (2, True)
