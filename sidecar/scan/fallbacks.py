"""Where `fallback` rules decide alone: where the model has no say about a text (docs/policies.md)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from sidecar.normalization.normalized_text import TRANSPORTS
from sidecar.scan.aggregation import Aggregate, ScanRun
from sidecar.types import Finding, LayerReport, Segment, SegmentReport

FILLED = 0.7
"""Share of a text covered by findings from which the model has no context to weigh (docs/detection.md)."""
AGREED = 3
"""Rules that find an order in a text's first words from which what follows does not change it (docs/detection.md)."""


def decide_fallbacks(report: LayerReport, is_scored: Sequence[bool], segments: Sequence[Segment]) -> LayerReport:
    """Let `fallback` findings block where the model has no say. `is_scored`: whether a model scores each segment.

    These are all findings on a segment that no model scores; those across the parts of a framed turn or a joined text,
    since the model reads only the parts; and those that fill nearly the whole text, or on which several rules agree in
    its first words, which leave it no context to weigh.
    """
    if len(report.segment_reports) != len(is_scored) or not any(finding.fallback for finding in report.findings):
        return report
    segment_reports = [
        _with_fallbacks(segment_report, _deciding_fallbacks(segment_report, scored, segment, segments))
        if any(finding.fallback for finding in segment_report.findings)
        else segment_report
        for segment_report, scored, segment in zip(report.segment_reports, is_scored, segments, strict=True)
    ]
    return _rebuilt(report, segment_reports)


def _deciding_fallbacks(
    report: SegmentReport, is_scored: bool, segment: Segment, segments: Sequence[Segment]
) -> Callable[[Finding], bool]:
    """Which `fallback` findings on a segment decide."""
    if segment.rules_only and is_scored:
        return _across_parts(segment, segments)
    decides = not is_scored or _is_filled(report, segment.text) or _is_begun(report, segment.text)
    return lambda _: decides


def _across_parts(whole: Segment, segments: Sequence[Segment]) -> Callable[[Finding], bool]:
    """Whether a finding reaches over two parts: in a joined text by its place, as a part may repeat the words."""
    if whole.joined:
        return lambda finding: finding.start is None or finding.end is None or _is_split(finding, whole.joins)
    texts = tuple(part.text for part in segments if whole.path in part.paths and not part.rules_only)
    is_whole = cache(lambda words: any(words in text for text in texts))  # the same words may be found in many places
    return lambda finding: not is_whole(whole.text[finding.start : finding.end])


def _is_split(finding: Finding, joins: Sequence[int]) -> bool:
    first, last = finding.start or 0, finding.end or 0
    return bisect_right(joins, first) < bisect_left(joins, last)


def decide_across_parts(report: LayerReport, segments: Sequence[Segment]) -> LayerReport:
    """Let no finding on a joined text that is cut decide if it lies in one part, which is read by itself.

    What stands around it there, such as quotation marks, may be cut off in the joined text.
    """
    if len(report.segment_reports) != len(segments):
        return report
    segment_reports = [
        _without_repetitions(segment_report, segment, segments)
        if segment_report.findings and segment.joined and segment.rules_only
        else segment_report
        for segment_report, segment in zip(report.segment_reports, segments, strict=True)
    ]
    if all(new is old for new, old in zip(segment_reports, report.segment_reports, strict=True)):
        return report
    return _rebuilt(report, segment_reports)


def _without_repetitions(report: SegmentReport, segment: Segment, segments: Sequence[Segment]) -> SegmentReport:
    across = _across_parts(segment, segments)
    findings = (
        f if not f.decides or across(f) else replace(f, decides=False, hint=True, fallback=False)
        for f in report.findings
    )
    return _with_findings(report, findings)


def _is_filled(report: SegmentReport, text: str) -> bool:
    """Whether `fallback` findings cover nearly the whole text."""
    covered = end = 0
    spans = [(f.start, f.end) for f in report.findings if f.fallback and f.hint and f.view not in TRANSPORTS]
    for start, stop in sorted((start, stop) for start, stop in spans if start is not None and stop is not None):
        covered += max(0, stop - max(start, end))
        end = max(end, stop)
    return covered >= FILLED * len(text) > 0


def _is_begun(report: SegmentReport, text: str) -> bool:
    """Whether `AGREED` rules have a `fallback` finding that begins with the text's first letter."""
    first = next((place for place, sign in enumerate(text) if sign.isalnum()), 0)
    return len({f.rule for f in report.findings if f.fallback and f.hint and f.start == first}) >= AGREED


def decide_without_model(reports: Sequence[LayerReport], run: ScanRun) -> tuple[Aggregate, tuple[LayerReport, ...]]:
    """The aggregate and the reports of the layers before the model if it failed: `fallback` findings block."""
    decided = tuple(
        decide_fallbacks(report, [False] * len(report.segment_reports), run.request.segments) for report in reports
    )
    aggregate = Aggregate(run.threshold)
    for report in decided:
        aggregate = aggregate.merged_with(report, run)
    return aggregate, decided


def _with_fallbacks(report: SegmentReport, decides: Callable[[Finding], bool]) -> SegmentReport:
    findings = (
        replace(f, decides=True, hint=False, fallback=False) if f.fallback and f.hint and decides(f) else f
        for f in report.findings
    )
    return _with_findings(report, findings)


def _with_findings(report: SegmentReport, findings: Iterable[Finding]) -> SegmentReport:
    changed = tuple(findings)
    return replace(report, score=max((f.score for f in changed if f.decides), default=0.0), findings=changed)


def _rebuilt(report: LayerReport, segment_reports: Sequence[SegmentReport]) -> LayerReport:
    rebuilt = LayerReport.from_segments(report.layer, segment_reports, report.detail)
    return replace(report, score=rebuilt.score, findings=rebuilt.findings, segment_reports=rebuilt.segment_reports)
