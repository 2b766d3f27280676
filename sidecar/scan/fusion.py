"""Fuses rule hints with the model's findings at the same place. Pure values.

A hint never blocks alone. It multiplies the odds of the model's findings that its span overlaps:

    odds(fused) = odds(model) x (product of score / (1 - score) over the hints) ** WEIGHT

which is the weight of evidence of I. J. Good (Probability and the Weighing of Evidence, 1950): a hint worth 0.8 is met
four times as often in attacks as in similar harmless texts. Each rule counts once per finding, and their product is
capped at `MAX_ODDS_FACTOR`: rules that match the same words are not independent, and neither are rules and model, which
is what the exponent is for. Without a finding of the model, hints change nothing.

A `fallback` hit that is an order in its context is stronger: it multiplies the odds of its place by its own, however
low the model's score is there. Of several the one with the highest result counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sidecar.types import Finding, LayerName, LayerReport, SegmentReport

MAX_ODDS_FACTOR = 20.0
"""Cap on the product of all hints: a model score below 0.07 never reaches 0.6."""
WEIGHT = 1.0
"""Chosen on a quarter of the holdout rows (`python -m training.combine --every 4`): from .75 to 1.5 they show no
significant difference (recall at 2 % false positives: .490, .493, .474 with .75, 1, 1.25; .478 without hints)."""
MAX_FALLBACK_SCORE = 0.99
"""The highest score that counts of a `fallback` hit: 0.015 of the model then becomes 0.6; with 0.97 it takes 0.045."""
MIN_FALLBACK_SCORE = 0.1
"""A `fallback` finding below this score stays a hint."""
_CERTAIN = 1 - 1e-9


def fuse_hints(report: LayerReport, earlier: Sequence[LayerReport], weight: float = WEIGHT) -> LayerReport:
    """The model's report fused with the hints of earlier reports; any other layer's report unchanged."""
    if report.layer is not LayerName.SEMANTIC or report.score is None or not report.segment_reports:
        return report
    hints = _hints(earlier, len(report.segment_reports))
    if not any(hints):
        return report
    segment_reports = [
        _fuse_segment(segment_report, segment_hints, weight) if segment_hints else segment_report
        for segment_report, segment_hints in zip(report.segment_reports, hints, strict=True)
    ]
    rebuilt = LayerReport.from_segments(report.layer, segment_reports)
    return replace(report, score=rebuilt.score, findings=rebuilt.findings, segment_reports=rebuilt.segment_reports)


def _hints(earlier: Sequence[LayerReport], segments: int) -> list[list[Finding]]:
    """The hints on each segment."""
    reports = [report for report in earlier if len(report.segment_reports) == segments]
    return [
        [f for report in reports for f in report.segment_reports[index].findings if f.hint] for index in range(segments)
    ]


def _fuse_segment(report: SegmentReport, hints: Sequence[Finding], weight: float) -> SegmentReport:
    findings = tuple(
        _raise_score(finding, hints, weight) if finding.decides else finding for finding in report.findings
    )
    findings = (*findings, *_confirmed_fallback(report, hints, weight))
    return replace(report, score=max([report.score, *(f.score for f in findings if f.decides)]), findings=findings)


def _confirmed_fallback(report: SegmentReport, hints: Sequence[Finding], weight: float) -> Iterator[Finding]:
    """The `fallback` hit with the highest fused score as a deciding finding, if the model does not rule it out."""
    hits = [
        replace(hint, score=_confirmed_score(hint, report, weight), decides=True, hint=False, fallback=False)
        for hint in hints
        if hint.fallback
    ]
    strongest = max(hits, key=lambda hit: hit.score, default=None)
    if strongest is not None and strongest.score >= max(MIN_FALLBACK_SCORE, report.score):
        yield strongest


def _confirmed_score(hit: Finding, report: SegmentReport, weight: float) -> float:
    model_score = max((score for start, end, score in report.suspicious if _overlaps(hit, start, end)), default=0.0)
    odds: float = _odds(model_score) * _odds(min(hit.score, MAX_FALLBACK_SCORE)) ** weight
    return odds / (1 + odds)


def _raise_score(finding: Finding, hints: Sequence[Finding], weight: float) -> Finding:
    """The finding with the overlapping hints applied, each rule with its highest score.

    The odds factor is at least 1 for each rule (its score starts at 0.5), so hints never lower a score.
    """
    best_scores: dict[str, float] = {}
    for hint in hints:
        if _overlap(finding, hint):
            best_scores[hint.rule] = max(hint.score, best_scores.get(hint.rule, 0.5))
    factor = min(MAX_ODDS_FACTOR, math.prod(_odds(score) for score in best_scores.values())) ** weight
    odds = _odds(finding.score) * factor
    return replace(finding, score=max(finding.score, odds / (1 + odds)))


def _odds(score: float) -> float:
    return min(score, _CERTAIN) / (1 - min(score, _CERTAIN))


def _overlap(first: Finding, second: Finding) -> bool:
    """Whether both spans overlap; a finding without a span covers the whole text."""
    if second.start is None or second.end is None:
        return True
    return _overlaps(first, second.start, second.end)


def _overlaps(finding: Finding, start: int, end: int) -> bool:
    return finding.start is None or finding.end is None or (finding.start < end and start < finding.end)
