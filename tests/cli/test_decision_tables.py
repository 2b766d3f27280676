"""Twin of sidecar/cli/decision_tables.py."""

from __future__ import annotations

import pytest
from dashboard import FINDING, log_row

from sidecar.cli.decision_tables import show_decision


def test_effects_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Deciding, excepted, hint, or none as of a rule on trial; earlier versions had no exceptions in the log."""
    finding = {**FINDING, "decides": False, "start": None, "score": None}
    findings = [FINDING, {**finding, "excepted": True}, {**finding, "hint": True}, {**finding, "hint": False}]
    show_decision(log_row(findings=findings, threats="", failure="deadline"), text=True)
    shown = capsys.readouterr().out
    assert [word for word in shown.split() if word in {"decides", "excepted", "hint", "none"}] == [
        *("decides", "excepted", "hint", "none"),
    ]
    assert "no threats" in shown
    assert "deadline" in shown
    assert "was not stored" in shown


def test_texts_of_clients_are_safe_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences and markup in every column that a client can write to."""
    odd = "\x1b[2J[red]x"
    findings = [{**FINDING, "path": odd, "rule": odd}]
    show_decision(log_row(model=odd, route=odd, findings=findings, text=odd, reasoning=odd), text=True)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[red]" in shown
