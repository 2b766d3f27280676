"""Hints count together with what the model says of the same place, and never alone."""

from __future__ import annotations

import pytest

from sidecar.scan.fusion import MOST, fused
from sidecar.types import Finding, Label, LayerName, LayerReport, SegmentReport


def hint(rule: str, score: float, start: int | None = 0, end: int | None = 10, *, counts: bool = True) -> Finding:
    """A hint of the rules layer."""
    place = (LayerName.RULES, "prompt", start, end)
    return Finding(rule, Label.JAILBREAK, score, *place, decides=False, hint=counts)


def model(score: float, start: int = 0, end: int = 20) -> Finding:
    """What the model says of a window."""
    return Finding("SEM-jailbreak", Label.JAILBREAK, score, LayerName.SEMANTIC, "prompt", start, end)


def together(found: Finding, *hints: Finding) -> float:
    """The score of a text with these findings."""
    rules = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, hints)])
    semantic = LayerReport.from_segments(LayerName.SEMANTIC, [SegmentReport(found.score, (found,))])
    report = fused(semantic, [rules])
    assert report.score == report.segment_reports[0].score == report.findings[0].score
    return report.score


def test_a_hint_multiplies_the_odds_of_the_model() -> None:
    """0.8 is four to one: even odds become four to one, one to four become even."""
    assert together(model(0.5), hint("A-1", 0.8)) == pytest.approx(0.8)
    assert together(model(0.2), hint("A-1", 0.8)) == pytest.approx(0.5)


def test_different_hints_add_up_to_a_bound_and_the_same_rule_counts_once() -> None:
    """Rules that look for the same words are no independent witnesses."""
    two = hint("A-1", 0.8), hint("A-2", 0.8)
    assert together(model(0.2), *two) == pytest.approx(0.8)
    assert together(model(0.2), hint("A-1", 0.8), hint("A-1", 0.7)) == pytest.approx(0.5)
    many = [hint(f"A-{n}", 0.9) for n in range(9)]
    assert together(model(0.01), *many) == pytest.approx(0.01 / 0.99 * MOST / (1 + 0.01 / 0.99 * MOST))
    assert together(model(0.01), *many) < 0.2


def test_a_hint_elsewhere_or_below_even_changes_nothing() -> None:
    """It speaks for its own place, and never for harmlessness."""
    assert together(model(0.3, 50, 90), hint("A-1", 0.9)) == 0.3
    assert together(model(0.3), hint("A-1", 0.3)) == 0.3
    assert together(model(0.3), hint("A-1", 0.9, counts=False)) == 0.3


def test_a_finding_without_a_place_is_about_the_whole_text() -> None:
    """Such as a text that hides itself."""
    assert together(model(0.5, 50, 90), hint("A-1", 0.8, None, None)) == pytest.approx(0.8)


def test_each_segment_has_its_own_hints() -> None:
    """A hint in one text says nothing of another."""
    rules = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (hint("A-1", 0.8),)), SegmentReport(0.0)])
    semantic = LayerReport.from_segments(LayerName.SEMANTIC, [SegmentReport(0.5, (model(0.5),))] * 2)
    assert [round(one.score, 2) for one in fused(semantic, [rules]).segment_reports] == [0.8, 0.5]


def test_other_reports_stay_as_they_are() -> None:
    """Of another layer, without an answer, or without segments."""
    rules = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (hint("A-1", 0.8),))])
    silent = LayerReport(LayerName.SEMANTIC, None, failure="deadline")
    for report in (rules, silent, LayerReport(LayerName.LLM_JUDGE, 0.5)):
        assert fused(report, [rules]) is report


def test_certainty_stays_finite() -> None:
    """A score of 1 on either side."""
    assert together(model(1.0), hint("A-1", 1.0)) == 1.0
