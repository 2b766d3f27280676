"""Tests of pinned tools as values and as a table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sidecar.cli.mcp_pins import pin_values, show_pins
from sidecar.storage import Pin

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
PINS = [Pin("mail", "send", "a", "a", NOW), Pin("notes", "send", "a", "b", NOW, NOW)]


def test_values_name_the_drift_and_the_shadows() -> None:
    """For `--json`."""
    mail, notes = pin_values(PINS)
    assert (mail["drift"], mail["changed_at"], mail["shadows"]) == (None, None, ["notes"])
    assert (notes["drift"], notes["changed_at"], notes["shadows"]) == ("changed", NOW.isoformat(), ["mail"])


def test_the_table_is_safe_on_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """Names come from servers."""
    show_pins(pin_values([Pin("notes", "a\x1b[31m[red]b", "a", "a", NOW)]))
    shown = capfd.readouterr().out
    assert "\x1b[31m" not in shown
    assert "[red]b" in shown
    show_pins([])
    assert "No tools." in capfd.readouterr().out
