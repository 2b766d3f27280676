"""Aggregates layer reports into the score of a request: the score, whether it blocks, and the reports behind it.

Pure values. A segment blocks if its score reaches its threshold: that of the caller's key, else of its source, else
the general one. A segment with a lower threshold of its own (`Segment.threshold`) is held to that, but its personal
data is not. The score of a request is the highest score of any layer, except that the judge's score replaces the
one that triggered it. PII never lowers or hides anything: its label is always listed, whatever its score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter, itemgetter

from sidecar.scan.exception_patterns import PatternExceptions
from sidecar.types import (
    Action,
    Finding,
    Label,
    LayerName,
    LayerReport,
    ScanRequest,
    Segment,
    SegmentReport,
    Source,
)
from sidecar.util.units import RuleChange

_score_of, _SCORE, _THRESHOLD = attrgetter("score"), itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The operator's settings: thresholds, the deadline in seconds, and the action on each kind of failure.

    The deadline grows with the text, by `deadline_per_mb` per million characters (`deadline_of`).
    `thresholds` and `layers` override by source (a source not listed is read by all layers), `model_...` by name or
    pattern of the model. `early`: layers may stop early once a block is settled; the score is then at least
    the threshold, but not always the maximum.
    """

    threshold: float = 0.6
    deadline: float = 4.0
    deadline_per_mb: float = 0.0
    all_failed: Action = Action.BLOCK
    overload: Action = Action.BLOCK
    too_long: Action = Action.BLOCK
    budget: Action = Action.BLOCK
    revision: str = ""
    thresholds: Mapping[Source, float] = field(default_factory=dict)
    layers: Mapping[Source, frozenset[LayerName]] = field(default_factory=dict)
    model_thresholds: Mapping[str, float] = field(default_factory=dict)
    model_layers: Mapping[str, frozenset[LayerName]] = field(default_factory=dict)
    early: bool = False
    exceptions: PatternExceptions | None = None

    def deadline_of(self, request: ScanRequest) -> float:
        """Seconds for this request. Texts with non-ASCII characters (2 or 3 bytes each) count double."""
        prompt = request.system_prompt or ""
        length = len(prompt) if prompt.isascii() else 2 * len(prompt)
        for segment in request.segments:
            length += len(segment.text) if segment.text.isascii() else 2 * len(segment.text)
        return self.deadline + self.deadline_per_mb * length / 1e6

    def thresholds_for(self, segments: Sequence[Segment], override: float | None) -> tuple[float, ...]:
        """The threshold of each segment by its source; `override`: that of the key or model, if any."""
        if override is not None or not self.thresholds:
            return (self.threshold if override is None else override,) * len(segments)
        return tuple([self.thresholds.get(segment.source, self.threshold) for segment in segments])

    def reads(self, layer: LayerName, segment: Segment) -> bool:
        """Whether this layer scans a segment: by its source; `rules_only` segments are for the rules layer alone."""
        if segment.rules_only and layer is not LayerName.RULES:
            return False
        return segment.source not in self.layers or layer in self.layers[segment.source]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a scan. `thorough`: run every layer; `rule_changes`: status and score overrides of its key.

    `client`: its key or address, among which the engine's slots are shared fairly. `former_ids`: the keys that its key
    is a successor of, whose exceptions are also its own.
    """

    key_id: str | None = None
    threshold: float | None = None
    thorough: bool = False
    client: str = ""
    rule_changes: Mapping[str, RuleChange] = field(default_factory=dict)
    former_ids: tuple[str, ...] = ()

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids for which exceptions may have been made; none without a key."""
        return (self.key_id, *self.former_ids) if self.key_id else ()


ANONYMOUS = Caller()


@dataclass(frozen=True, slots=True)
class ScanRun:
    """State of one scan: request, caller, start time, and the threshold of each segment.

    `base_thresholds`: those of personal data; empty if no segment has a lower threshold of its own.
    """

    request: ScanRequest
    caller: Caller
    started: float
    threshold: float
    thresholds: tuple[float, ...]
    exceptions: tuple[frozenset[str], ...] = ()
    """The excepted rules of each segment; empty if there are none at all."""
    deadline: float = math.inf
    """In `time.monotonic` seconds, as `started`."""
    base_thresholds: tuple[float, ...] = ()

    @property
    def threshold_by_path(self) -> dict[str, float]:
        """The threshold at each path: the lowest where several segments share one."""
        lowest: dict[str, float] = {}
        for segment, threshold in zip(self.request.segments, self.thresholds, strict=True):
            for path in segment.paths:
                lowest[path] = min(threshold, lowest.get(path, threshold))
        return lowest


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The score so far, the layer that set it, its threshold, whether it blocks, and the reports behind it."""

    threshold: float
    score: float | None = None
    layer: LayerName = LayerName.RULES
    blocked: bool = False
    reports: tuple[LayerReport, ...] = ()

    def merged_with(self, report: LayerReport, run: ScanRun, *, replaces: bool = False) -> Aggregate:
        """The aggregate after merging this layer's report; `replaces`: its score replaces the current one.

        Invariant: without `replaces` it blocks if and only if some score reached its own threshold, and `threshold`
        is then the lowest one that was reached.
        """
        if report.score is None:
            return self
        if replaces and self.score is not None:
            return self._replaced_by(report, run)
        merged = (*self.reports, report)
        scores = _scores(report, run, self.threshold)
        reached = [pair for pair in scores if pair[0] >= pair[1] - _ROUNDING_MARGIN and _reaches(*pair)]
        # A segment with its own threshold counts only if it reaches it, so that score and action agree.
        candidates = reached or [pair for pair in scores if pair[1] == run.threshold] or scores
        score, threshold = max(sorted(candidates, key=_THRESHOLD), key=_SCORE)  # of equal scores the lowest threshold
        blocked, layer = bool(reached), report.layer
        if self.score is not None and (self.blocked, self.score) >= (blocked, score):
            score, layer, threshold = self.score, self.layer, self.threshold
        # A higher score under a higher threshold must not raise the threshold of the segment that blocks.
        thresholds = [*map(_THRESHOLD, reached), *[self.threshold] * self.blocked]
        return Aggregate(min(thresholds, default=threshold), score, layer, bool(thresholds), merged)

    def _replaced_by(self, report: LayerReport, run: ScanRun) -> Aggregate:
        """The judge's score applies, but never below the score of the PII findings."""
        pii_threshold = min(run.base_thresholds, default=self.threshold)
        pii_reports = tuple(replace(r, findings=tuple(f for f in r.findings if _is_pii(f))) for r in self.reports)
        floor = max((f.score for r in pii_reports for f in r.findings), default=0.0)
        score = report.score or 0.0
        blocked = _reaches(score, self.threshold) or _reaches(floor, pii_threshold)
        return Aggregate(self.threshold, max(score, floor), report.layer, blocked, (*pii_reports, report))


def apply_exceptions(report: LayerReport, run: ScanRun) -> LayerReport:
    """The report with excepted findings kept as non-deciding."""
    if not run.exceptions or report.score is None:
        return report
    if report.segment_reports:
        segment_reports = [
            _without_rules(segment_report, rules)
            for segment_report, rules in zip(report.segment_reports, run.exceptions, strict=True)
        ]
        rebuilt = LayerReport.from_segments(report.layer, segment_reports, report.detail)
        return replace(report, score=rebuilt.score, findings=rebuilt.findings, segment_reports=rebuilt.segment_reports)
    if len(run.exceptions) > 1:
        return report
    remaining = _without_rules(SegmentReport(report.score, report.findings), run.exceptions[0])
    return replace(report, score=remaining.score, findings=remaining.findings)


def all_rules_of(layer: LayerName) -> str:
    """The name by which an exception covers every finding of a layer."""
    return f"{layer}:*"


def _is_excepted(finding: Finding, rules: frozenset[str]) -> bool:
    return finding.rule in rules or all_rules_of(finding.layer) in rules


def _without_rules(report: SegmentReport, rules: frozenset[str]) -> SegmentReport:
    if not any(_is_excepted(finding, rules) and (finding.decides or finding.hint) for finding in report.findings):
        return report
    findings = tuple(_excepted(f) if _is_excepted(f, rules) else f for f in report.findings)
    return replace(report, score=max((f.score for f in findings if f.decides), default=0.0), findings=findings)


def _excepted(finding: Finding) -> Finding:
    return replace(finding, decides=False, hint=False, excepted=finding.decides or finding.hint)


def apply_rule_changes(report: LayerReport, rule_changes: Mapping[str, RuleChange]) -> LayerReport:
    """The report with the rule changes of the caller's key applied."""
    if not rule_changes or not any(finding.rule in rule_changes for finding in report.findings):
        return report
    rebuilt = LayerReport.from_segments(
        report.layer,
        [_with_rule_changes(segment_report, rule_changes) for segment_report in report.segment_reports],
        report.detail,
    )
    return replace(report, score=rebuilt.score, findings=rebuilt.findings, segment_reports=rebuilt.segment_reports)


def _with_rule_changes(report: SegmentReport, rule_changes: Mapping[str, RuleChange]) -> SegmentReport:
    if not any(finding.rule in rule_changes for finding in report.findings):
        return report
    findings = tuple(
        _with_rule_change(f, rule_changes[f.rule]) if f.rule in rule_changes else f for f in report.findings
    )
    return replace(report, score=max((f.score for f in findings if f.decides), default=0.0), findings=findings)


def _with_rule_change(finding: Finding, change: RuleChange) -> Finding:
    """A finding that its context made harmless stays non-blocking whatever the key says."""
    rescored = finding if change.score is None else replace(finding, score=change.score)
    is_mitigated = not finding.decides and finding.hint and not finding.fallback
    if change.status is None or (change.status == "block" and is_mitigated):
        return rescored
    return replace(rescored, decides=change.status == "block", hint=change.status == "hint", fallback=False)


MAX_INLINE_FINDINGS = 200
"""Findings of a layer that are handled on the event loop; a thread handles more."""


def add_digests(report: LayerReport, run: ScanRun, digest: Callable[[str], str]) -> LayerReport:
    """The report with the text digest added to each finding that blocks, so that it can be excepted, or is excepted.

    A report on the whole request (the judge's) names a text only if there is one alone.
    """
    reports = report.segment_reports or (SegmentReport(report.score or 0.0, report.findings),)
    if len(reports) != len(run.thresholds):
        return report
    segments = zip(reports, run.thresholds, run.request.segments, strict=True)
    findings = [
        finding
        for segment_report, threshold, segment in segments
        for finding in _with_digest(segment_report.findings, threshold, partial(digest, segment.text))
    ]
    return replace(report, findings=tuple(findings))


def _with_digest(findings: Sequence[Finding], threshold: float, digest: Callable[[], str]) -> Sequence[Finding]:
    """The findings of a segment, those that block or are excepted with its digest, which is computed once."""
    matches = [(finding.decides or finding.excepted) and _reaches(finding.score, threshold) for finding in findings]
    if not any(matches):
        return findings
    value = digest()
    return [replace(f, digest=value) if is_marked else f for f, is_marked in zip(findings, matches, strict=True)]


def lowered_thresholds(segments: Sequence[Segment], base: tuple[float, ...]) -> tuple[float, ...]:
    """The thresholds with the lower ones that segments have themselves; `base` itself if none has one."""
    lower = [segment.threshold for segment in segments]
    if lower.count(None) == len(lower):
        return base
    return tuple(limit if value is None else min(limit, value) for value, limit in zip(lower, base, strict=True))


_ROUNDING_MARGIN = 1e-4
"""Upper bound of what `round_score` adds: cheap prefilter, since most scores of a long conversation are near 0."""


def round_score(score: float) -> float:
    """A score clamped to 0..1 with four decimals, as it is reported."""
    return round(min(1.0, max(0.0, score)), 4)


def _reaches(score: float, threshold: float) -> bool:
    """Compares the rounded score, as it is reported, so that score and action never disagree."""
    return round_score(score) >= threshold


def _scores(report: LayerReport, run: ScanRun, threshold: float) -> list[tuple[float, float]]:
    """Scores with their thresholds; a report on the whole request is held to the aggregate's threshold."""
    if len(report.segment_reports) != len(run.thresholds) or not report.segment_reports:
        return [(report.score or 0.0, threshold)]
    base_thresholds = run.base_thresholds or run.thresholds
    pairs = list(zip(map(_score_of, report.segment_reports), base_thresholds, strict=True))
    if not run.base_thresholds:
        return pairs
    lowered = zip(report.segment_reports, run.thresholds, run.base_thresholds, strict=True)
    return pairs + [(_score_without_pii(item), threshold) for item, threshold, base in lowered if threshold < base]


def _score_without_pii(report: SegmentReport) -> float:
    if not any(map(_is_pii, report.findings)):
        return report.score
    return max((finding.score for finding in report.findings if finding.decides and not _is_pii(finding)), default=0.0)


def _is_pii(finding: Finding) -> bool:
    return finding.label is Label.PII_DETECTED


def _deciding(aggregate: Aggregate) -> list[Finding]:
    return [f for report in aggregate.reports for f in report.findings if f.decides]


def threats(aggregate: Aggregate, thresholds: Mapping[str, float]) -> tuple[Label, ...]:
    """Labels that reach their threshold, and PII always; if a block has none, the label with the highest score."""
    findings = _deciding(aggregate)
    if not findings:
        return ()
    labels = {f.label for f in findings if _is_pii(f) or _reaches(f.score, thresholds.get(f.path, aggregate.threshold))}
    others = [f for f in findings if not _is_pii(f)]
    if aggregate.blocked and not labels and others:
        labels = {max(others, key=lambda f: f.score).label}
    return tuple(label for label in Label if label in labels)


def blocking_path(aggregate: Aggregate, thresholds: Mapping[str, float]) -> str | None:
    """The path that blocks: the highest-scoring finding that reaches its threshold, else the highest of all."""
    ranked = sorted(
        _deciding(aggregate),
        key=lambda f: (not _reaches(f.score, thresholds.get(f.path, aggregate.threshold)), -f.score),
    )
    return ranked[0].path if ranked else None


def reasoning(aggregate: Aggregate, reports: Sequence[LayerReport]) -> str | None:
    """The judge's explanation if the judge set the score, else None."""
    if aggregate.layer is not LayerName.LLM_JUDGE:
        return None
    explanations = [report.reasoning for report in reports if report.layer is LayerName.LLM_JUDGE]
    return explanations[-1] or "The judge gave a score without an explanation."
