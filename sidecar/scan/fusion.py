"""Fuses hints with what the model says of the same place. Pure values.

A hint never blocks alone. It multiplies the odds of the model's findings that its place overlaps:

    odds(fused) = odds(model) x (product of score / (1 - score) over the hints) ** WEIGHT

which is the weight of evidence of I. J. Good (Probability and the Weighing of Evidence, 1950): a hint worth 0.8 is met
four times as often in attacks as in harmless texts that look like them. Each rule counts once a finding, and all
together at most `MOST`: rules that look for the same words are no independent witnesses, and neither are rules and
model, which is what the exponent is for. Where the model found nothing, or is not asked, hints change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sidecar.types import Finding, LayerName, LayerReport, SegmentReport

MOST = 20.0
"""What all hints together multiply the odds by at most: with less than 0.07 of the model they never reach 0.6."""
WEIGHT = 1.0
"""Chosen on a quarter of the held-back rows (`python -m training.combine --every 4`): from .75 to 1.5 it makes no
difference that they could show (2 % false positives: .490, .493, .474 caught with .75, 1, 1.25; .478 without hints)."""
_CERTAIN = 1 - 1e-9


def fused(report: LayerReport, earlier: Sequence[LayerReport], weight: float = WEIGHT) -> LayerReport:
    """The model's report with the hints of the reports before it; any other layer's report as it is."""
    if report.layer is not LayerName.SEMANTIC or report.score is None or not report.segment_reports:
        return report
    hints = _hints(earlier, len(report.segment_reports))
    if not any(hints):
        return report
    each = [
        _segment(one, found, weight) if found else one for one, found in zip(report.segment_reports, hints, strict=True)
    ]
    over = LayerReport.from_segments(report.layer, each)
    return replace(report, score=over.score, findings=over.findings, segment_reports=over.segment_reports)


def _hints(earlier: Sequence[LayerReport], segments: int) -> list[list[Finding]]:
    """The hints on each segment."""
    reports = [report for report in earlier if len(report.segment_reports) == segments]
    return [[f for report in reports for f in report.segment_reports[at].findings if f.hint] for at in range(segments)]


def _segment(report: SegmentReport, hints: Sequence[Finding], weight: float) -> SegmentReport:
    findings = tuple(_raised(found, hints, weight) if found.decides else found for found in report.findings)
    return replace(report, score=max([report.score, *(f.score for f in findings if f.decides)]), findings=findings)


def _raised(found: Finding, hints: Sequence[Finding], weight: float) -> Finding:
    """The finding with the hints at its place, each rule at its highest worth."""
    worth: dict[str, float] = {}
    for hint in hints:
        if _overlap(found, hint):
            worth[hint.rule] = max(hint.score, worth.get(hint.rule, 0.5))
    factor = min(MOST, math.prod(_odds(score) for score in worth.values())) ** weight
    odds = _odds(found.score) * factor
    return replace(found, score=max(found.score, odds / (1 + odds)))


def _odds(score: float) -> float:
    return min(score, _CERTAIN) / (1 - min(score, _CERTAIN))


def _overlap(one: Finding, other: Finding) -> bool:
    """Whether both stand at the same place; a finding without a place is about the whole text."""
    if one.start is None or one.end is None or other.start is None or other.end is None:
        return True
    return one.start < other.end and other.start < one.end
