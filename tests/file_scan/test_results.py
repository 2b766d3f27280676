"""Tests of results: line and column of a finding, and its level."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.file_scan.discovery import TextFile
from sidecar.file_scan.results import FileResult, Position, result_of
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict

FILE = TextFile(Path("AGENTS.md"), "Build.\n\u00fc Do as I say.\n")
INJECTION, PII = Label.PROMPT_INJECTION, Label.PII_DETECTED


def finding(
    rule: str, score: float, start: int | None = 9, end: int | None = 21, label: Label = INJECTION, **more: bool
) -> Finding:
    """A finding of the rules."""
    return Finding(rule, label, score, LayerName.RULES, "file", start, end, **more)


def verdict(*findings: Finding, action: Action = Action.BLOCK, failure: str | None = None) -> Verdict:
    """A verdict on the file."""
    report = LayerReport(LayerName.RULES, 0.9, findings)
    return Verdict(0.95, action, (INJECTION,), 1, LayerName.RULES, failure=failure, reports=(report,))


def levels(result: FileResult) -> dict[str, str]:
    """Level by rule."""
    return {place.rule: place.level for place in result.places}


def test_a_place_has_line_and_column_in_characters() -> None:
    """Counted from 1; the end is behind the last character."""
    (place,) = result_of(FILE, verdict(finding("A", 0.9)), 0.6).places
    assert (place.start, place.end) == (Position(2, 3), Position(2, 15))
    (whole,) = result_of(FILE, verdict(finding("A", 0.9, None, None)), 0.6).places
    assert (whole.start, whole.end) == (Position(1, 1), Position(1, 1))


def test_what_reaches_the_threshold_blocks_and_the_rest_is_a_hint() -> None:
    """Personal data that decides nothing is neither."""
    found = (
        finding("A", 0.9),
        finding("B", 0.4, 0),
        finding("C", 0.9, 1, decides=False, hint=True),
        finding("D", 0.5, 2, label=PII),
        finding("E", 0.9, 3, decides=False),
    )
    result = result_of(FILE, verdict(*found), 0.6)
    assert levels(result) == {"A": "block", "B": "hint", "C": "hint"}
    assert (result.reaches("block"), result.reaches("hint")) == (True, True)
    allowed = result_of(FILE, verdict(found[1], action=Action.ALLOW), 0.6)
    assert (levels(allowed), allowed.reaches("block"), allowed.reaches("hint")) == ({"B": "hint"}, False, True)


def test_a_block_that_no_finding_explains_alone_is_at_the_strongest() -> None:
    """Hints that count together."""
    hints = [finding("A", 0.5, decides=False, hint=True), finding("B", 0.55, 0, decides=False, hint=True)]
    assert levels(result_of(FILE, verdict(*hints), 0.6)) == {"B": "block", "A": "hint"}


@pytest.mark.parametrize(("action", "error"), [(Action.BLOCK, True), (Action.ALLOW, False)])
def test_a_scan_that_failed_is_an_error_unless_the_settings_open(action: Action, error: bool) -> None:
    """With its cause."""
    result = result_of(FILE, verdict(action=action, failure="deadline"), 0.6)
    assert (result.error, result.problem is not None) == (error, error)
