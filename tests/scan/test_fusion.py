"""Twin of sidecar/scan/fusion.py: hints raise model findings at the same place, and never count alone."""

from __future__ import annotations

import pytest

from sidecar.scan.fusion import MAX_ODDS_FACTOR, fuse_hints
from sidecar.types import Finding, Label, LayerName, LayerReport, SegmentReport


def hint(rule: str, score: float, start: int | None = 0, end: int | None = 10, *, counts: bool = True) -> Finding:
    """A hint of the rules layer."""
    place = (LayerName.RULES, "prompt", start, end)
    return Finding(rule, Label.JAILBREAK, score, *place, decides=False, hint=counts)


def model(score: float, start: int = 0, end: int = 20) -> Finding:
    """A finding of the model on a window."""
    return Finding("SEM-jailbreak", Label.JAILBREAK, score, LayerName.SEMANTIC, "prompt", start, end)


def fused_score(finding: Finding, *hints: Finding) -> float:
    """The score of a text with these findings."""
    rules = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, hints)])
    semantic = LayerReport.from_segments(LayerName.SEMANTIC, [SegmentReport(finding.score, (finding,))])
    report = fuse_hints(semantic, [rules])
    assert report.score == report.segment_reports[0].score == report.findings[0].score
    return report.score


def test_a_hint_multiplies_the_odds_of_the_model() -> None:
    """0.8 is odds of four to one: even odds become 4:1, and 1:4 become even."""
    assert fused_score(model(0.5), hint("A-1", 0.8)) == pytest.approx(0.8)
    assert fused_score(model(0.2), hint("A-1", 0.8)) == pytest.approx(0.5)


def test_different_hints_add_up_to_a_bound_and_the_same_rule_counts_once() -> None:
    """Rules that match the same words are not independent evidence."""
    two = hint("A-1", 0.8), hint("A-2", 0.8)
    assert fused_score(model(0.2), *two) == pytest.approx(0.8)
    assert fused_score(model(0.2), hint("A-1", 0.8), hint("A-1", 0.7)) == pytest.approx(0.5)
    many = [hint(f"A-{n}", 0.9) for n in range(9)]
    assert fused_score(model(0.01), *many) == pytest.approx(
        0.01 / 0.99 * MAX_ODDS_FACTOR / (1 + 0.01 / 0.99 * MAX_ODDS_FACTOR)
    )
    assert fused_score(model(0.01), *many) < 0.2


def test_a_hint_elsewhere_or_below_even_changes_nothing() -> None:
    """It applies to its own span, and never lowers a score."""
    assert fused_score(model(0.3, 50, 90), hint("A-1", 0.9)) == 0.3
    assert fused_score(model(0.3), hint("A-1", 0.3)) == 0.3
    assert fused_score(model(0.3), hint("A-1", 0.9, counts=False)) == 0.3


def test_a_finding_without_a_span_covers_the_whole_text() -> None:
    """For example a finding about hidden text."""
    assert fused_score(model(0.5, 50, 90), hint("A-1", 0.8, None, None)) == pytest.approx(0.8)


def test_each_segment_has_its_own_hints() -> None:
    """A hint in one segment does not affect another."""
    rules = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (hint("A-1", 0.8),)), SegmentReport(0.0)])
    semantic = LayerReport.from_segments(LayerName.SEMANTIC, [SegmentReport(0.5, (model(0.5),))] * 2)
    assert [round(item.score, 2) for item in fuse_hints(semantic, [rules]).segment_reports] == [0.8, 0.5]


def test_other_reports_stay_as_they_are() -> None:
    """Reports of other layers, without a score, or without segments are returned unchanged."""
    rules = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (hint("A-1", 0.8),))])
    silent = LayerReport(LayerName.SEMANTIC, None, failure="deadline")
    for report in (rules, silent, LayerReport(LayerName.LLM_JUDGE, 0.5)):
        assert fuse_hints(report, [rules]) is report


def fallback(rule: str, score: float, start: int = 0, end: int = 10) -> Finding:
    """A hit of a `fallback` rule beside the model."""
    place = (LayerName.RULES, "prompt", start, end)
    return Finding(rule, Label.JAILBREAK, score, *place, decides=False, hint=True, fallback=True)


def with_fallbacks(places: tuple[tuple[int, int, float], ...], *hits: Finding) -> SegmentReport:
    """The fused report of a segment with these suspicious places and hits; the model has no finding."""
    rules = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, hits)])
    score = max((score for _, _, score in places), default=0.0)
    semantic = LayerReport.from_segments(LayerName.SEMANTIC, [SegmentReport(score, suspicious=places)])
    return fuse_hints(semantic, [rules]).segment_reports[0]


def test_a_fallback_blocks_unless_the_model_finds_its_place_harmless() -> None:
    """0.96 is odds of 24: 0.06 of the model becomes 0.6; the finding is the rule's."""
    (finding,) = with_fallbacks(((0, 20, 0.06),), fallback("A-1", 0.96)).findings
    assert (finding.rule, finding.decides, finding.hint) == ("A-1", True, False)
    assert finding.score == pytest.approx(0.605, abs=0.001)
    assert with_fallbacks(((0, 20, 0.004),), fallback("A-1", 0.96)).findings == ()
    assert with_fallbacks((), fallback("A-1", 0.99)).score == 0.0


def test_a_fallback_is_judged_at_its_own_place() -> None:
    """A suspicious place elsewhere in the text is no evidence; of several hits the strongest is reported."""
    assert with_fallbacks(((50, 90, 0.4),), fallback("A-1", 0.97)).score == 0.4
    report = with_fallbacks(((0, 20, 0.02), (50, 90, 0.4)), fallback("A-1", 0.99), fallback("A-2", 0.9, 60, 70))
    assert [finding.rule for finding in report.findings] == ["A-2"]
    assert report.score == report.findings[0].score == pytest.approx(0.857, abs=0.001)


def test_no_rule_is_certain() -> None:
    """A score of 1 counts as 0.99: the model can rule out every hit."""
    assert with_fallbacks(((0, 20, 0.01),), fallback("A-1", 1.0)).score == pytest.approx(0.5, abs=0.001)


def test_certainty_stays_finite() -> None:
    """Scores of 1 on both sides do not divide by zero."""
    assert fused_score(model(1.0), hint("A-1", 1.0)) == 1.0
