"""Twin of sidecar/cli/output.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sidecar.cli import output
from sidecar.config import Settings
from sidecar.storage import ApiKey


def test_every_situation_has_its_line() -> None:
    """The failure policy is shown whole, nested lines too."""
    names = {name for name, _ in output.failure_lines(Settings())}
    assert {"failure.rules", "failure.all", "failure.input.oversize", "failure.unknown_route"} <= names


def test_keys_fit_a_terminal_and_names_are_folded(capsys: pytest.CaptureFixture[str]) -> None:
    """No column but the name is cut; an end that is near has its time."""
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    key = ApiKey("k1111111", "a long name of an application", "development", now, expires_at=now + timedelta(minutes=1))
    output.show_keys([key, replace(key, expires_at=now + timedelta(days=90))], now)
    text = capsys.readouterr().out
    assert "development" in text
    assert "2026-05-01 12:01" in text
    assert "2026-07-30 " in text
    assert "application" in text
    assert max(map(len, text.splitlines())) <= 80
