"""Twin of sidecar/cli/output.py."""

from __future__ import annotations

from sidecar.cli import output
from sidecar.config import Settings


def test_every_situation_has_its_line() -> None:
    """The failure policy is shown whole, nested lines too."""
    names = {name for name, _ in output.failure_lines(Settings())}
    assert {"failure.rules", "failure.all", "failure.input.oversize", "failure.unknown_route"} <= names
