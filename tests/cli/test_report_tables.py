"""Twin of sidecar/cli/report_tables.py."""

from __future__ import annotations

import pytest

from sidecar.cli.report_tables import show_report
from sidecar.evaluation import Outcome, Row, report
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict


def outcome(name: str, score: float, *, attack: bool = False, failure: str | None = None, size: int = 10) -> Outcome:
    """A document and a verdict of this score."""
    row = Row(name, "x", frozenset({"jailbreak"} if attack else ()), not attack, form="document", size=size, pair="p")
    action = Action.BLOCK if score >= 0.6 or failure else Action.ALLOW
    finding = Finding("T-1", Label.JAILBREAK, score, LayerName.RULES, "prompt")
    reports = (LayerReport(LayerName.RULES, score, (finding,)),) if score >= 0.6 else ()
    return Outcome(
        row, Verdict(score, action, (), 1, LayerName.RULES, None, failure, reports), 0.1, said_by="untrusted"
    )


def test_people_see_rates_sizes_causes_pairs_and_what_could_not_be_scanned(capsys: pytest.CaptureFixture[str]) -> None:
    """Each in its table or line."""
    attack, twin = outcome("a", 0.9, attack=True), outcome("b", 0.1)
    show_report(report([attack, twin, outcome("c", 0.7, size=50_000), outcome("d", 0, failure="deadline")]))
    shown = capsys.readouterr().out
    for text in ("32-200 kB", "pairs", "T-1 1", "said by: untrusted 1", "could not scan: deadline 1", "of words alone"):
        assert text in shown, text


def test_a_file_without_labels_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to count is a dash, not an error."""
    show_report(
        report([Outcome(Row("r", "x", frozenset(), False), Verdict(0.1, Action.ALLOW, (), 1, LayerName.RULES), 1)])
    )
    assert "-" in capsys.readouterr().out


def test_what_a_file_of_one_kind_cannot_tell_is_a_dash_or_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Without attacks there is no AUC, and without pairs no row of pairs."""
    row = Row("r", "x", frozenset(), True)
    show_report(report([Outcome(row, Verdict(0.1, Action.ALLOW, (), 1, LayerName.RULES), 1)]))
    shown = capsys.readouterr().out
    assert ("AUC -" in shown, "None" in shown, "pairs" in shown) == (True, False, False)
