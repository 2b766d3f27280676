"""Runs the layers in order within one deadline and turns their reports into one verdict.

The engine is the only place that decides. It knows layers as a list of stages, a threshold and a
failure policy; it knows nothing of HTTP, models or YAML. A failing layer becomes a report with a
`failure`, never an exception.

How scores combine, and what blocks, is in `standing`; what hints add is in `fusion`. Once a block is settled, layers
that cannot change it are not asked, and a layer may stop reading (`ScanRequest.sufficient_score`), unless the caller
wants all there is to know.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from sidecar.errors import LayerError
from sidecar.extraction.joining import remove_pieces
from sidecar.scan.aggregation import (
    ANYBODY,
    Caller,
    Case,
    Standing,
    Terms,
    culprit,
    exempted,
    reasoning,
    rounded,
    signed,
    switched,
    threats,
)
from sidecar.scan.fusion import fused
from sidecar.types import (
    Action,
    Finding,
    Layer,
    LayerName,
    LayerReport,
    ScanRequest,
    Segment,
    SegmentReport,
    Verdict,
)
from sidecar.util import by_model
from sidecar.util.bulkhead import Bulkhead, BulkheadFull
from sidecar.util.timeouts import with_timeout

__all__ = ["ALWAYS", "ANYBODY", "Caller", "Engine", "Exempting", "Stage", "Terms", "Watcher"]

ALWAYS = (0.0, math.inf)
Watcher = Callable[[ScanRequest, Caller, Verdict], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """A layer and the engine's terms for it.

    The layer is asked while the score so far lies in `between` (lower bound included), and always
    while no layer has answered. `until_settled`: not once a block is settled, either. `replaces`: its
    score stands instead of the score so far. `decides`: False records its opinion and ignores it.
    """

    layer: Layer
    on_failure: Literal["block", "skip"] = "block"
    between: tuple[float, float] = ALWAYS
    until_settled: bool = False
    replaces: bool = False
    decides: bool = True

    def asks(self, score: float | None, *, settled: bool) -> bool:
        """Whether this layer is asked, given the score so far (None: nobody has answered yet)."""
        if score is None:
            return True
        return self.between[0] <= score < self.between[1] and not (settled and self.until_settled)


class Exempting(Protocol):
    """What the engine needs to know of exceptions (`sidecar.scan.exceptions`)."""

    def of(self, segments: Sequence[Segment], key_id: str | None) -> tuple[frozenset[str], ...]:
        """For each segment the rules that are excepted on it; empty if there are none at all."""
        ...

    def digest(self, text: str) -> str:
        """What a text is known by."""
        ...


class Engine:
    """Scans requests. `bulkhead` bounds how many run and wait; beyond it a scan fails with `overload`."""

    def __init__(
        self, stages: Sequence[Stage], terms: Terms, bulkhead: Bulkhead, exemptions: Exempting | None = None
    ) -> None:
        self.stages = tuple(stages)
        self.terms = terms
        self._bulkhead = bulkhead
        self._exemptions = exemptions
        # A score below these may still be replaced.
        self._judged_up_to = [stage.between[1] for stage in self.stages if stage.replaces and stage.decides]
        self.watcher: Watcher | None = None
        """Told of each verdict; must return at once."""

    async def scan(self, request: ScanRequest, caller: Caller = ANYBODY) -> Verdict:
        """One verdict for all segments together. Never raises for the trouble of a layer."""
        case = self._case(request, caller)
        try:
            async with self._bulkhead:
                verdict = await self._run(case)
        except BulkheadFull:
            return self._failed("overload", self.terms.overload, (), case.started)
        if self.watcher is not None:
            self.watcher(request, caller, verdict)
        return verdict

    def _case(self, request: ScanRequest, caller: Caller) -> Case:
        own = (
            by_model.find(self.terms.model_thresholds, request.model) if caller.threshold is None else caller.threshold
        )
        threshold = self.terms.threshold if own is None else own
        bars = self.terms.bars(request.segments, own)
        exempt = self._exemptions.of(request.segments, caller.key_id) if self._exemptions else ()
        if exempt:
            request = _without_exempt(request, exempt)
        if exempt or caller.switches:
            # What is excepted or switched off may be what a layer would stop at: then all is read, by every layer.
            caller = replace(caller, thorough=True)
        if self.terms.early and not caller.thorough:
            enough = max([threshold, *bars, *self._judged_up_to])
            request = ScanRequest(request.segments, request.system_prompt, request.model, enough)
        started = time.monotonic()
        return Case(request, caller, started, threshold, bars, exempt, started + self.terms.deadline_of(request))

    def _settled(self, standing: Standing, case: Case) -> bool:
        if case.caller.thorough or not standing.blocked or standing.score is None:
            return False
        return all(standing.score >= bound for bound in self._judged_up_to)

    async def _run(self, case: Case) -> Verdict:
        standing, caller = Standing(case.threshold), case.caller
        reports: tuple[LayerReport, ...] = ()
        prior: tuple[Finding, ...] = ()
        for stage in self.stages:
            if not stage.asks(standing.score, settled=self._settled(standing, case)):
                continue
            asked = self._asked(stage.layer.name, case.request)
            if not asked.segments:
                continue
            report = _over_all(await self._ask(stage.layer, asked, case, prior), asked, case.request)
            report = fused(exempted(switched(report, caller.switches), case), reports)
            if report.failure == "budget" and report.score is not None:
                report = self._sufficient(stage, report, standing, case)
            reports = (*reports, report)
            prior = (*prior, *report.findings)
            if report.failure is not None and (failed := self._failure(stage, report, reports, case.started)):
                # What opens lets up what nobody could read, not what was read and blocks.
                known = failed.action is Action.ALLOW or failed.failure == "budget"
                return self._verdict(standing, reports, case) if known and standing.blocked else failed
            if stage.decides:
                standing = standing.after(report, case, replaces=stage.replaces)
        if standing.score is None:
            cause = next((report.failure for report in reports if report.failure), "no_layer")
            return self._failed(cause, self.terms.all_failed, reports, case.started)
        return self._verdict(standing, reports, case)

    def _asked(self, layer: LayerName, request: ScanRequest) -> ScanRequest:
        """The request without the texts that this layer does not read."""
        only = by_model.find(self.terms.model_layers, request.model)
        if only is not None and layer not in only:
            return replace(request, segments=())
        segments = tuple(segment for segment in request.segments if self.terms.reads(layer, segment))
        return request if len(segments) == len(request.segments) else replace(request, segments=segments)

    async def _ask(self, layer: Layer, asked: ScanRequest, case: Case, prior: Sequence[Finding]) -> LayerReport:
        begun = time.monotonic()
        try:
            report = await with_timeout(max(0.0, case.deadline - begun), layer.scan(asked, prior))
        except TimeoutError:
            report = LayerReport(layer.name, None, failure="deadline")
        except LayerError as error:
            report = LayerReport(layer.name, None, failure=error.cause)
        except Exception as error:  # noqa: BLE001 - a broken layer is a report; its type is what we may say
            report = LayerReport(layer.name, None, failure="error", detail={"error": type(error).__name__})
        if report.score is not None and not math.isfinite(report.score):
            report = replace(report, score=None, failure="error")
        taken = time.monotonic() - begun
        return LayerReport(
            report.layer,
            report.score,
            report.findings,
            taken,
            report.failure,
            report.reasoning,
            report.detail,
            report.segment_reports,
        )

    def _failure(
        self, stage: Stage, report: LayerReport, reports: tuple[LayerReport, ...], started: float
    ) -> Verdict | None:
        """The end of the scan if this failure ends it. What is in the text is the client's doing, not the layer's."""
        if report.failure == "too_long":
            return self._failed("too_long", self.terms.too_long, reports, started)
        if report.failure == "budget" and report.layer is not LayerName.LLM_JUDGE and stage.decides:
            return self._failed("budget", self.terms.budget, reports, started)
        if stage.on_failure == "block" and stage.decides:
            return self._failed(str(report.failure), Action.BLOCK, reports, started)
        return None

    def _sufficient(self, stage: Stage, report: LayerReport, standing: Standing, case: Case) -> LayerReport:
        """The report of a layer whose budget ended: no failure if what it has read blocks, else without a score."""
        if stage.decides and standing.after(report, case, replaces=stage.replaces).blocked:
            return replace(report, failure=None)
        return replace(report, score=None)

    def _failed(self, cause: str, action: Action, reports: tuple[LayerReport, ...], started: float) -> Verdict:
        used = reports[-1].layer if reports else LayerName.RULES
        return Verdict(
            0.0, action, (), _since(started), used, failure=cause, reports=reports, revision=self.terms.revision
        )

    def _verdict(self, standing: Standing, reports: tuple[LayerReport, ...], case: Case) -> Verdict:
        bars = case.bar_of if any(report.findings for report in standing.counted) else {}
        if standing.blocked and self._exemptions is not None:
            reports = tuple(signed(report, case, self._exemptions.digest) for report in reports)
        return Verdict(
            risk_score=rounded(standing.score or 0.0),
            action=Action.BLOCK if standing.blocked else Action.ALLOW,
            threats=threats(standing, bars),
            latency_ms=_since(case.started),
            layer_used=standing.layer,
            reasoning=reasoning(standing, reports),
            reports=reports,
            revision=self.terms.revision,
            blocking_path=culprit(standing, bars) if standing.blocked else None,
        )


def _over_all(report: LayerReport, asked: ScanRequest, request: ScanRequest) -> LayerReport:
    """A report on some of the segments as one on all: nothing is said of those that were not asked about."""
    if len(report.segment_reports) != len(asked.segments) or len(asked.segments) == len(request.segments):
        return report
    said = {id(segment): one for segment, one in zip(asked.segments, report.segment_reports, strict=True)}
    return replace(report, segment_reports=tuple(said.get(id(segment), NOTHING) for segment in request.segments))


NOTHING = SegmentReport(0.0)


def _without_exempt(request: ScanRequest, exempt: Sequence[frozenset[str]]) -> ScanRequest:
    """What is read in a row, without the texts that somebody has declared harmless: they are still read apart."""
    pieces = [s.text for s, rules in zip(request.segments, exempt, strict=True) if rules and not s.joined]
    segments = (replace(s, text=remove_pieces(s.text, pieces)) if s.joined else s for s in request.segments)
    return replace(request, segments=tuple(segments))


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
