"""How a scan stands after each layer: the score, whether it blocks, and what it rests on. Pure values.

What blocks: a segment whose score reaches its bar. That is the threshold of the caller's key, else of its
source, else the general one. The highest score of any layer is the score of the request,
except that a judge replaces what made it be asked. PII never lowers or hides: its label is listed whatever
its score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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


@dataclass(frozen=True, slots=True)
class Terms:
    """What the operator decided: thresholds, the deadline in seconds, and what failing means.

    The deadline grows with the text, by `deadline_per_mb` for each million characters (`deadline_of`).
    `model_...` hold what differs by name or pattern of the model, `thresholds` those of single sources, `layers` the
    layers that read them (all, of one not named).
    `early`: layers may stop reading once a block is settled; the score is then at least the threshold, and not always
    the highest that there is.
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

    def deadline_of(self, request: ScanRequest) -> float:
        """Seconds for this request; a character beyond ASCII is two bytes or three, so such texts count double."""
        texts = (*(segment.text for segment in request.segments), request.system_prompt or "")
        return self.deadline + self.deadline_per_mb * sum(len(t) if t.isascii() else 2 * len(t) for t in texts) / 1e6

    def bars(self, segments: Sequence[Segment], own: float | None) -> tuple[float, ...]:
        """The score from which each segment blocks; `own`: the threshold of the caller's key, if it has one."""
        if own is not None or not self.thresholds:
            return (self.threshold if own is None else own,) * len(segments)
        return tuple(self.thresholds.get(segment.source, self.threshold) for segment in segments)

    def reads(self, layer: LayerName, segment: Segment) -> bool:
        """Whether this layer is asked about a text: by its source, and rules alone where its parts are read, too."""
        if segment.rules_only and layer is not LayerName.RULES:
            return False
        return segment.source not in self.layers or layer in self.layers[segment.source]


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a scan is made. `thorough`: every layer shall speak; `switches`: what a key changes of rules."""

    key_id: str | None = None
    threshold: float | None = None
    thorough: bool = False
    decision: str = ""
    switches: Mapping[str, RuleChange] = field(default_factory=dict)


ANYBODY = Caller()


@dataclass(frozen=True, slots=True)
class Case:
    """One scan: the request, the caller, when it began, and the bar of each segment."""

    request: ScanRequest
    caller: Caller
    started: float
    threshold: float
    bars: tuple[float, ...]
    exempt: tuple[frozenset[str], ...] = ()
    """For each segment the rules that are excepted on it; empty if there are none at all."""
    deadline: float = math.inf
    """On the clock of `started`."""

    @property
    def bar_of(self) -> dict[str, float]:
        """The bar at each path; the lowest where several texts stand at one."""
        found: dict[str, float] = {}
        for segment, bar in zip(self.request.segments, self.bars, strict=True):
            for path in segment.paths:
                found[path] = min(bar, found.get(path, bar))
        return found


@dataclass(frozen=True, slots=True)
class Standing:
    """The score so far, who set it, the bar it is held to, whether that blocks, and the reports that count."""

    bar: float
    score: float | None = None
    layer: LayerName = LayerName.RULES
    blocked: bool = False
    counted: tuple[LayerReport, ...] = ()

    def after(self, report: LayerReport, case: Case, *, replaces: bool = False) -> Standing:
        """The standing once this layer has spoken; `replaces`: its score stands instead of the one so far."""
        if report.score is None:
            return self
        if replaces and self.score is not None:
            return self._replaced(report)
        counted = (*self.counted, report)
        scores = _scores(report, case, self.bar)
        reached = [pair for pair in scores if pair[0] >= pair[1] - _ROUNDING and _reaches(*pair)]
        # Beside others, what is held to a bar of its own counts only once it reaches it: score and action agree.
        weighed = reached or [pair for pair in scores if pair[1] == case.threshold] or scores
        score, bar = max(weighed, key=lambda pair: (pair[0], -pair[1]))
        blocked, layer = bool(reached), report.layer
        if self.score is not None and (self.blocked, self.score) >= (blocked, score):
            score, layer, bar = self.score, self.layer, self.bar
        # Beside a text that weighs more under a higher bar, what blocks is still held to its own.
        bars = [pair[1] for pair in reached] + [self.bar] * self.blocked
        return Standing(min(bars, default=bar), score, layer, bool(bars), counted)

    def _replaced(self, report: LayerReport) -> Standing:
        """The judge's score stands, but not below what PII alone is worth to the operator."""
        kept = tuple(replace(r, findings=tuple(f for f in r.findings if _is_pii(f))) for r in self.counted)
        floor = max((f.score for r in kept for f in r.findings), default=0.0)
        score = max(report.score or 0.0, floor)
        return Standing(self.bar, score, report.layer, _reaches(score, self.bar), (*kept, report))


def exempted(report: LayerReport, case: Case) -> LayerReport:
    """The report with what is excepted still in it, and no longer deciding."""
    if not case.exempt or report.score is None:
        return report
    if report.segment_reports:
        each = [_without(one, rules) for one, rules in zip(report.segment_reports, case.exempt, strict=True)]
        over = LayerReport.from_segments(report.layer, each, report.detail)
        return replace(report, score=over.score, findings=over.findings, segment_reports=over.segment_reports)
    if len(case.exempt) > 1:
        return report
    left = _without(SegmentReport(report.score, report.findings), case.exempt[0])
    return replace(report, score=left.score, findings=left.findings)


def _without(report: SegmentReport, rules: frozenset[str]) -> SegmentReport:
    if not any(finding.rule in rules and (finding.decides or finding.hint) for finding in report.findings):
        return report
    findings = tuple(replace(f, decides=False, hint=False) if f.rule in rules else f for f in report.findings)
    return replace(report, score=max((f.score for f in findings if f.decides), default=0.0), findings=findings)


def switched(report: LayerReport, switches: Mapping[str, RuleChange]) -> LayerReport:
    """The report with what the caller's key changes of rules."""
    if not switches or not any(finding.rule in switches for finding in report.findings):
        return report
    over = LayerReport.from_segments(
        report.layer, [_changed(one, switches) for one in report.segment_reports], report.detail
    )
    return replace(report, score=over.score, findings=over.findings, segment_reports=over.segment_reports)


def _changed(report: SegmentReport, switches: Mapping[str, RuleChange]) -> SegmentReport:
    if not any(finding.rule in switches for finding in report.findings):
        return report
    findings = tuple(_as_switched(f, switches[f.rule]) if f.rule in switches else f for f in report.findings)
    return replace(report, score=max((f.score for f in findings if f.decides), default=0.0), findings=findings)


def _as_switched(finding: Finding, switch: RuleChange) -> Finding:
    """What was excused by its context blocks for nobody."""
    changed = finding if switch.score is None else replace(finding, score=switch.score)
    if switch.status is None or (switch.status == "block" and not finding.decides and finding.hint):
        return changed
    return replace(changed, decides=switch.status == "block", hint=switch.status == "hint")


def signed(report: LayerReport, case: Case, digest: Callable[[str], str]) -> LayerReport:
    """The report with the digest of the text at each finding that is worth a block: it can then be excepted."""
    if len(report.segment_reports) != len(case.bars):
        return report
    segments = zip(report.segment_reports, case.bars, case.request.segments, strict=True)
    findings = [
        replace(f, digest=digest(segment.text)) if f.decides and _reaches(f.score, bar) else f
        for one, bar, segment in segments
        for f in one.findings
    ]
    return replace(report, findings=tuple(findings))


_ROUNDING = 1e-4
"""More than `rounded` adds: of a long conversation nearly all scores are nothing, and need no second look."""


def rounded(score: float) -> float:
    """As a score is shown."""
    return round(min(1.0, max(0.0, score)), 4)


def _reaches(score: float, bar: float) -> bool:
    """Rounded first, as it is shown: score and action never disagree."""
    return rounded(score) >= bar


def _scores(report: LayerReport, case: Case, bar: float) -> list[tuple[float, float]]:
    """Scores with the bars they are held to; a word on the whole request is held to that of what made it be asked."""
    if len(report.segment_reports) != len(case.bars) or not report.segment_reports:
        return [(report.score or 0.0, bar)]
    return [(one.score, bar) for one, bar in zip(report.segment_reports, case.bars, strict=True)]


def _is_pii(finding: Finding) -> bool:
    return finding.label is Label.PII_DETECTED


def _deciding(standing: Standing) -> list[Finding]:
    return [f for report in standing.counted for f in report.findings if f.decides]


def threats(standing: Standing, bars: Mapping[str, float]) -> tuple[Label, ...]:
    """Labels worth a block, and PII always; a block whose labels each stayed below names the strongest."""
    findings = _deciding(standing)
    if not findings:
        return ()
    labels = {f.label for f in findings if _is_pii(f) or _reaches(f.score, bars.get(f.path, standing.bar))}
    others = [f for f in findings if not _is_pii(f)]
    if standing.blocked and not labels and others:
        labels = {max(others, key=lambda f: f.score).label}
    return tuple(label for label in Label if label in labels)


def culprit(standing: Standing, bars: Mapping[str, float]) -> str | None:
    """The place that blocks: of the findings that reach their bar the strongest, else the strongest of all."""
    ranked = sorted(
        _deciding(standing), key=lambda f: (not _reaches(f.score, bars.get(f.path, standing.bar)), -f.score)
    )
    return ranked[0].path if ranked else None


def reasoning(standing: Standing, reports: Sequence[LayerReport]) -> str | None:
    """The judge's words exactly when the judge set the score."""
    if standing.layer is not LayerName.LLM_JUDGE:
        return None
    said = [report.reasoning for report in reports if report.layer is LayerName.LLM_JUDGE]
    return said[-1] or "The judge gave a score without an explanation."
