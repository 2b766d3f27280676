"""Runs the layers in order within one deadline and turns their reports into one verdict.

The engine is the only place that decides. It knows layers as a list of stages, a threshold and a
failure policy; it knows nothing of HTTP, models or YAML. A failing layer becomes a report with a
`failure`, never an exception.

How scores combine: the highest score of any layer is the score of the request, except that a judge,
asked only inside its band, replaces what made it be asked. Later layers are skipped once the score is
certain. PII never lowers or hides: its label is listed whatever its score.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sidecar.errors import LayerError
from sidecar.limits import Concurrency, QueueFull
from sidecar.types import Action, Finding, Label, Layer, LayerName, LayerReport, ScanRequest, Verdict

ALWAYS = (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class Stage:
    """A layer and the engine's terms for it.

    The layer is asked while the score so far lies in `between` (lower bound included), and always
    while no layer has answered. `replaces`: its score stands instead of the score so far. `decides`:
    False records its opinion and ignores it.
    """

    layer: Layer
    on_failure: Literal["block", "skip"] = "block"
    between: tuple[float, float] = ALWAYS
    replaces: bool = False
    decides: bool = True

    def asks(self, score: float | None) -> bool:
        """Whether this layer is asked, given the score so far (None: nobody has answered yet)."""
        return score is None or self.between[0] <= score < self.between[1]


@dataclass(frozen=True, slots=True)
class Terms:
    """What the operator decided: the threshold, the deadline in seconds, and what failing means."""

    threshold: float = 0.6
    deadline: float = 4.0
    all_failed: Action = Action.BLOCK
    overload: Action = Action.BLOCK
    too_long: Action = Action.BLOCK
    revision: str = ""


@dataclass(frozen=True, slots=True)
class _Standing:
    """The score so far, who set it, and the reports that count for the threats."""

    score: float | None = None
    layer: LayerName = LayerName.RULES
    counted: tuple[LayerReport, ...] = ()

    def after(self, stage: Stage, report: LayerReport) -> _Standing:
        if report.score is None or not stage.decides:
            return self
        if stage.replaces and self.score is not None:
            return self._replaced(report)
        counted = (*self.counted, report)
        if self.score is None or report.score > self.score:
            return _Standing(report.score, report.layer, counted)
        return replace(self, counted=counted)

    def _replaced(self, report: LayerReport) -> _Standing:
        """The judge's score stands, but not below what PII alone is worth to the operator."""
        kept = tuple(replace(r, findings=tuple(f for f in r.findings if _is_pii(f))) for r in self.counted)
        floor = max((f.score for r in kept for f in r.findings), default=0.0)
        return _Standing(max(report.score or 0.0, floor), report.layer, (*kept, report))


class Engine:
    """Scans requests. `gate` bounds how many run at once; beyond it a scan fails with `overload`."""

    def __init__(self, stages: Sequence[Stage], terms: Terms, gate: Concurrency) -> None:
        self.stages = tuple(stages)
        self.terms = terms
        self._gate = gate

    async def scan(self, request: ScanRequest) -> Verdict:
        """One verdict for all segments together. Never raises for the trouble of a layer."""
        started = time.monotonic()
        try:
            async with self._gate:
                return await self._run(request, started)
        except QueueFull:
            return self._failed("overload", self.terms.overload, (), started)

    async def _run(self, request: ScanRequest, started: float) -> Verdict:
        standing = _Standing()
        reports: tuple[LayerReport, ...] = ()
        prior: tuple[Finding, ...] = ()
        for stage in self.stages:
            if not stage.asks(standing.score):
                continue
            report = await self._ask(stage.layer, request, prior, started)
            reports = (*reports, report)
            prior = (*prior, *report.findings)
            if report.failure is not None and (failed := self._failure(stage, report, reports, started)):
                return failed
            standing = standing.after(stage, report)
        if standing.score is None:
            cause = next((report.failure for report in reports if report.failure), "no_layer")
            return self._failed(cause, self.terms.all_failed, reports, started)
        return self._verdict(standing, reports, started)

    async def _ask(self, layer: Layer, request: ScanRequest, prior: Sequence[Finding], started: float) -> LayerReport:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, started + self.terms.deadline - begun)):
                report = await layer.scan(request, prior)
        except TimeoutError:
            report = LayerReport(layer.name, None, failure="deadline")
        except LayerError as error:
            report = LayerReport(layer.name, None, failure=error.cause)
        except Exception as error:  # noqa: BLE001 - a broken layer is a report; its type is what we may say
            report = LayerReport(layer.name, None, failure="error", detail={"error": type(error).__name__})
        if report.score is not None and not math.isfinite(report.score):
            report = replace(report, score=None, failure="error")
        return replace(report, elapsed=time.monotonic() - begun)

    def _failure(
        self, stage: Stage, report: LayerReport, reports: tuple[LayerReport, ...], started: float
    ) -> Verdict | None:
        """The end of the scan if this failure ends it. A text too long is the client's doing, not the layer's."""
        if report.failure == "too_long":
            return self._failed("too_long", self.terms.too_long, reports, started)
        if stage.on_failure == "block" and stage.decides:
            return self._failed(str(report.failure), Action.BLOCK, reports, started)
        return None

    def _failed(self, cause: str, action: Action, reports: tuple[LayerReport, ...], started: float) -> Verdict:
        used = reports[-1].layer if reports else LayerName.RULES
        return Verdict(
            0.0, action, (), _since(started), used, failure=cause, reports=reports, revision=self.terms.revision
        )

    def _verdict(self, standing: _Standing, reports: tuple[LayerReport, ...], started: float) -> Verdict:
        score = round(min(1.0, max(0.0, standing.score or 0.0)), 4)
        blocked = score >= self.terms.threshold
        return Verdict(
            risk_score=score,
            action=Action.BLOCK if blocked else Action.ALLOW,
            threats=_threats(standing.counted, self.terms.threshold, blocked=blocked),
            latency_ms=_since(started),
            layer_used=standing.layer,
            reasoning=_reasoning(standing, reports),
            reports=reports,
            revision=self.terms.revision,
        )


def _is_pii(finding: Finding) -> bool:
    return finding.label is Label.PII_DETECTED


def _threats(reports: Sequence[LayerReport], threshold: float, *, blocked: bool) -> tuple[Label, ...]:
    """Labels worth a block, and PII always; a block whose labels each stayed below names the strongest."""
    findings = [f for report in reports for f in report.findings if f.decides]
    labels = {f.label for f in findings if _is_pii(f) or round(f.score, 4) >= threshold}
    others = [f for f in findings if not _is_pii(f)]
    if blocked and not labels and others:
        labels = {max(others, key=lambda f: f.score).label}
    return tuple(label for label in Label if label in labels)


def _reasoning(standing: _Standing, reports: Sequence[LayerReport]) -> str | None:
    """The judge's words exactly when the judge set the score."""
    if standing.layer is not LayerName.LLM_JUDGE:
        return None
    said = [report.reasoning for report in reports if report.layer is LayerName.LLM_JUDGE]
    return said[-1] or "The judge gave a score without an explanation."


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
