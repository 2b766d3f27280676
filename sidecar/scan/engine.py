"""Runs the layers in order within one deadline and turns their reports into one verdict.

The engine is the only place that decides. It knows stages, thresholds and the failure policy, but not HTTP, models or
YAML. A failing layer becomes a report with a `failure`, never an exception.

`aggregation` combines scores and decides what blocks; `fusion` adds hints. Once a block is settled, layers that cannot
change it do not run and a layer may stop early (`ScanRequest.sufficient_score`), unless the caller is `thorough`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal, Protocol

from sidecar.errors import LayerError
from sidecar.extraction.joining import without
from sidecar.scan.aggregation import (
    ANONYMOUS,
    MAX_INLINE_FINDINGS,
    Aggregate,
    Caller,
    EngineConfig,
    ScanRun,
    add_digests,
    apply_exceptions,
    apply_rule_changes,
    blocking_path,
    lowered_thresholds,
    reasoning,
    round_score,
    threats,
)
from sidecar.scan.exception_patterns import merge
from sidecar.scan.fallbacks import decide_across_parts, decide_fallbacks, decide_without_model
from sidecar.scan.fusion import fuse_hints
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

__all__ = [
    "ANONYMOUS",
    "ANY_SCORE",
    "Caller",
    "Engine",
    "EngineConfig",
    "ExceptionLookup",
    "Stage",
    "VerdictObserver",
]

ANY_SCORE = (0.0, math.inf)
VerdictObserver = Callable[[ScanRequest, Caller, str, Verdict], None]
"""Takes a request, its caller, the id of its decision, and the verdict."""
_findings_of = attrgetter("findings")


@dataclass(frozen=True, slots=True)
class Stage:
    """A layer and when it runs.

    The layer runs while the aggregate score lies in `score_range` (lower bound included), and always while no layer has
    a score yet. `skip_if_settled`: it does not run once a block is settled. `replaces`: its score replaces the
    aggregate's. `decides`: if False, its report is recorded and otherwise ignored.
    """

    layer: Layer
    on_failure: Literal["block", "skip"] = "block"
    score_range: tuple[float, float] = ANY_SCORE
    skip_if_settled: bool = False
    replaces: bool = False
    decides: bool = True

    def should_run(self, score: float | None, *, settled: bool) -> bool:
        """Whether this layer runs, given the score so far (None: no layer has a score yet)."""
        if score is None:
            return True
        return self.score_range[0] <= score < self.score_range[1] and not (settled and self.skip_if_settled)


class ExceptionLookup(Protocol):
    """The engine's view of `sidecar.scan.exceptions`."""

    def rules_for(self, segments: Sequence[Segment], key_ids: Collection[str]) -> tuple[frozenset[str], ...]:
        """The excepted rules of each segment; empty if there are none at all."""
        ...

    def digest(self, text: str) -> str:
        """The keyed digest that identifies a text."""
        ...


class Engine:
    """Scans requests. `bulkhead` bounds how many run and wait; beyond it a scan fails with `overload`."""

    def __init__(
        self,
        stages: Sequence[Stage],
        config: EngineConfig,
        bulkhead: Bulkhead,
        exceptions: ExceptionLookup | None = None,
    ) -> None:
        self.stages = tuple(stages)
        self.config = config
        self._bulkhead = bulkhead
        self._exceptions = exceptions
        # Upper bounds of the stages that replace the score: a block below one of them is not settled yet.
        self._replaceable_below = [stage.score_range[1] for stage in self.stages if stage.replaces and stage.decides]
        self.observer: VerdictObserver | None = None
        """Called with each verdict; must not block."""
        self.shadow: Engine | None = None
        """The engine of the second policy set, if there is one; its verdicts are only shown."""

    async def scan(self, request: ScanRequest, caller: Caller = ANONYMOUS, decision: str = "") -> Verdict:
        """One verdict for all segments together. Never raises for a failing layer. `decision`: its id, if recorded."""
        run = self._start_run(request, caller)
        try:
            await self._bulkhead.acquire(caller.client)
        except BulkheadFull:
            return self._failure_verdict("overload", self.config.overload, (), run.started)
        try:
            verdict = await self._run_stages(run)
        finally:
            self._bulkhead.release()
        if self.observer is not None:
            self.observer(request, caller, decision, verdict)
        return verdict

    def _start_run(self, request: ScanRequest, caller: Caller) -> ScanRun:
        override = caller.threshold
        if override is None and self.config.model_thresholds:
            override = by_model.find(self.config.model_thresholds, request.model)
        threshold = self.config.threshold if override is None else override
        patterns = self.config.exceptions
        request, excepted = patterns.apply(request, caller.key_ids) if patterns else (request, ())
        base = self.config.thresholds_for(request.segments, override)
        thresholds = lowered_thresholds(request.segments, base)
        exceptions = self._exceptions.rules_for(request.segments, caller.key_ids) if self._exceptions else ()
        if exceptions:
            request = _without_excepted_texts(request, exceptions)
        exceptions = merge(exceptions, excepted) if excepted else exceptions
        if exceptions or caller.rule_changes:
            # A layer could stop early at a finding that no longer decides, so every layer reads everything.
            caller = replace(caller, thorough=True)
        early = self.config.early and not caller.thorough
        enough = max([threshold, *thresholds, *self._replaceable_below]) if early else request.sufficient_score
        request = ScanRequest(request.segments, request.system_prompt, request.model, enough, caller.client)
        started = time.monotonic()
        deadline = started + self.config.deadline_of(request)
        base = () if base is thresholds else base
        return ScanRun(request, caller, started, threshold, thresholds, exceptions, deadline, base)

    def _settled(self, aggregate: Aggregate, run: ScanRun) -> bool:
        if run.caller.thorough or not aggregate.blocked or aggregate.score is None:
            return False
        return all(aggregate.score >= bound for bound in self._replaceable_below)

    async def _run_stages(self, run: ScanRun) -> Verdict:
        aggregate = Aggregate(run.threshold)
        reports: tuple[LayerReport, ...] = ()
        prior: tuple[Finding, ...] = ()
        for stage in self.stages:
            if not stage.should_run(aggregate.score, settled=self._settled(aggregate, run)):
                continue
            readable = self._request_for(stage.layer.name, run.request)
            if not readable.segments:
                continue
            report = _cover_all_segments(
                await self._run_layer(stage.layer, readable, run, prior), readable, run.request
            )
            if report.findings or prior:
                report = self._adjusted(report, reports, run)
            if report.failure == "budget" and report.score is not None:
                report = self._accept_partial(stage, report, aggregate, run)
            reports = (*reports, report)
            prior = (*prior, *report.findings)
            is_without_model = report.score is None and stage.layer.name is LayerName.SEMANTIC
            if is_without_model:
                aggregate, reports = decide_without_model(reports, run)
            if report.failure is not None and (
                failure_verdict := self._final_failure(stage, report, reports, run.started)
            ):
                # `allow` on failure forwards unscanned text, but never overrides a block that was already found.
                block_stands = failure_verdict.action is Action.ALLOW or failure_verdict.failure == "budget"
                return self._verdict(aggregate, reports, run) if block_stands and aggregate.blocked else failure_verdict
            if stage.decides and not is_without_model:
                aggregate = aggregate.merged_with(report, run, replaces=stage.replaces)
        return await self._final_verdict(aggregate, reports, run)

    async def _final_verdict(self, aggregate: Aggregate, reports: tuple[LayerReport, ...], run: ScanRun) -> Verdict:
        """The verdict after the last layer, in a thread if there are very many findings."""
        if aggregate.score is None:
            cause = next((report.failure for report in reports if report.failure), "no_layer")
            return self._failure_verdict(cause, self.config.all_failed, reports, run.started)
        if sum(map(len, map(_findings_of, reports))) > MAX_INLINE_FINDINGS:
            return await asyncio.to_thread(self._verdict, aggregate, reports, run)
        return self._verdict(aggregate, reports, run)

    def _adjusted(self, report: LayerReport, earlier: Sequence[LayerReport], run: ScanRun) -> LayerReport:
        """The report after the changes of the caller's key, fallbacks, exceptions and hints."""
        report = apply_rule_changes(report, run.caller.rule_changes)
        if report.findings and report.layer is LayerName.RULES:
            report = decide_across_parts(report, run.request.segments)
        if any(finding.fallback for finding in report.findings):
            report = decide_fallbacks(report, self._scored_by_model(run.request), run.request.segments)
        return fuse_hints(apply_exceptions(report, run), earlier)

    def _request_for(self, layer: LayerName, request: ScanRequest) -> ScanRequest:
        """The request with only the segments that this layer scans."""
        if self.config.model_layers:
            allowed_layers = by_model.find(self.config.model_layers, request.model)
            if allowed_layers is not None and layer not in allowed_layers:
                return replace(request, segments=())
        segments = [segment for segment in request.segments if self.config.reads(layer, segment)]
        return request if len(segments) == len(request.segments) else replace(request, segments=tuple(segments))

    def _scored_by_model(self, request: ScanRequest) -> list[bool]:
        """For each segment whether the semantic layer scores it, or the parts of a framed or joined text."""
        allowed_layers = by_model.find(self.config.model_layers, request.model)
        has_model = any(stage.layer.name is LayerName.SEMANTIC and stage.decides for stage in self.stages)
        if not has_model or (allowed_layers is not None and LayerName.SEMANTIC not in allowed_layers):
            return [False] * len(request.segments)
        return [
            self.config.reads(LayerName.SEMANTIC, replace(segment, rules_only=False)) for segment in request.segments
        ]

    async def _run_layer(
        self, layer: Layer, readable: ScanRequest, run: ScanRun, prior: Sequence[Finding]
    ) -> LayerReport:
        started = time.monotonic()
        try:
            report = await with_timeout(max(0.0, run.deadline - started), layer.scan(readable, prior))
        except TimeoutError:
            report = LayerReport(layer.name, None, failure="deadline")
        except LayerError as error:
            report = LayerReport(layer.name, None, failure=error.cause)
        except Exception as error:  # noqa: BLE001 - any layer error becomes a report that names its type
            report = LayerReport(layer.name, None, failure="error", detail={"error": type(error).__name__})
        if report.score is not None and not math.isfinite(report.score):
            report = replace(report, score=None, failure="error")
        report.elapsed = time.monotonic() - started
        return report

    def _final_failure(
        self, stage: Stage, report: LayerReport, reports: tuple[LayerReport, ...], started: float
    ) -> Verdict | None:
        """The verdict if this failure ends the scan. `too_long` and `budget` are the client's doing."""
        if report.failure == "too_long":
            return self._failure_verdict("too_long", self.config.too_long, reports, started)
        if report.failure == "budget" and report.layer is not LayerName.LLM_JUDGE and stage.decides:
            return self._failure_verdict("budget", self.config.budget, reports, started)
        if stage.on_failure == "block" and stage.decides:
            return self._failure_verdict(str(report.failure), Action.BLOCK, reports, started)
        return None

    def _accept_partial(self, stage: Stage, report: LayerReport, aggregate: Aggregate, run: ScanRun) -> LayerReport:
        """The partial report of a layer out of budget: no failure if it already blocks, else without a score."""
        if stage.decides and aggregate.merged_with(report, run, replaces=stage.replaces).blocked:
            return replace(report, failure=None)
        return replace(report, score=None)

    def _failure_verdict(self, cause: str, action: Action, reports: tuple[LayerReport, ...], started: float) -> Verdict:
        last_layer = reports[-1].layer if reports else LayerName.RULES
        return Verdict(
            0.0,
            action,
            (),
            _elapsed_ms(started),
            last_layer,
            failure=cause,
            reports=reports,
            revision=self.config.revision,
        )

    def _verdict(self, aggregate: Aggregate, reports: tuple[LayerReport, ...], run: ScanRun) -> Verdict:
        has_findings = any(map(_findings_of, aggregate.reports))
        thresholds = run.threshold_by_path if has_findings else {}
        if aggregate.blocked and self._exceptions is not None:
            reports = tuple(add_digests(report, run, self._exceptions.digest) for report in reports)
        return Verdict(
            risk_score=round_score(aggregate.score or 0.0),
            action=Action.BLOCK if aggregate.blocked else Action.ALLOW,
            threats=threats(aggregate, thresholds) if has_findings else (),
            latency_ms=_elapsed_ms(run.started),
            layer_used=aggregate.layer,
            reasoning=reasoning(aggregate, reports),
            reports=reports,
            revision=self.config.revision,
            blocking_path=blocking_path(aggregate, thresholds) if aggregate.blocked else None,
            threshold=aggregate.threshold,
        )


def _cover_all_segments(report: LayerReport, readable: ScanRequest, request: ScanRequest) -> LayerReport:
    """A report on some segments, extended to all: the others get an empty report."""
    if len(report.segment_reports) != len(readable.segments) or len(readable.segments) == len(request.segments):
        return report
    by_segment = {
        id(segment): report for segment, report in zip(readable.segments, report.segment_reports, strict=True)
    }
    return replace(
        report, segment_reports=tuple(by_segment.get(id(segment), NO_FINDINGS) for segment in request.segments)
    )


NO_FINDINGS = SegmentReport(0.0)


def _without_excepted_texts(request: ScanRequest, exceptions: Sequence[frozenset[str]]) -> ScanRequest:
    """Cut excepted texts out of joined segments; they are still scanned on their own."""
    texts = {s.text for s, rules in zip(request.segments, exceptions, strict=True) if rules and not s.joined}
    segments = (without(segment, texts) if segment.joined else segment for segment in request.segments)
    return replace(request, segments=tuple(segments))


def _elapsed_ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
