"""What the scan API and the adapters in `compat` share: from the key of a request to its recorded outcome.

In this order: the key (401), the rate (429), the body, the scan, the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from aiohttp import web

from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError, RateLimited, RequestError, Unavailable
from sidecar.extraction import json_body
from sidecar.extraction.extraction import Extraction
from sidecar.limits import OverBudget
from sidecar.observability.metrics import ANSWERS
from sidecar.response_scan.detector import ResponseDetector, Text
from sidecar.scan.engine import Engine
from sidecar.scan.selection import ScanInput
from sidecar.scan.service import ScanOutcome, ScanService
from sidecar.server.body import decode_body, read_body
from sidecar.server.caller import API_KEY, scan_context
from sidecar.server.middleware import Gatekeeper
from sidecar.server.responses import TOO_SUSPICIOUS
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict
from sidecar.util.timeouts import with_timeout

T = TypeVar("T")


class ScanEndpoint:
    """Reads, scans and records requests under given settings.

    `obeyed`: the caller does what the outcome says, so `mode: monitor` applies; else the caller decides for itself.
    """

    def __init__(
        self,
        engine: Engine,
        decision_log: DecisionLog,
        gatekeeper: Gatekeeper,
        settings: Settings,
        *,
        entrypoint: str = "api",
        obeyed: bool = False,
        personal: RulesLayer | None = None,
    ) -> None:
        self.settings = settings
        self._personal = personal
        self._scans, self._gatekeeper = ScanService(engine, decision_log, settings), gatekeeper
        self._entrypoint, self._obeyed = entrypoint, obeyed

    async def read(self, request: web.Request, key: str | None, parse: Callable[[json_body.JsonValue], T]) -> T:
        """The parsed body, once the key and the rate are in order. Raises `RequestError`."""
        await self._gatekeeper.admit(request, key)
        self._scans.admit()
        limits = self.settings.limits
        try:
            raw = await read_body(request, limits)
            plain = await decode_body(request, raw, request.headers.get("Content-Type"), limits)
        except OverBudget:
            raise _busy() from None
        return parse(json_body.parse(plain, depth=limits.depth))

    async def scan(self, request: web.Request, wanted: ScanInput, *, thorough: bool = False) -> ScanOutcome:
        """Scan and record. Raises `RequestError` if it could not be scanned and the policy is closed."""
        context = scan_context(request, self._entrypoint)
        verdict = await self._scans.scan(wanted.request, context, thorough=thorough)
        outcome = self._scans.decide(verdict, wanted.unscanned, monitored=self._monitors(request))
        error = refusal(verdict) if outcome.failure else None
        segments, model = wanted.request.segments, wanted.request.model
        self._scans.record(context, outcome, error.status if error else 200, segments, model)
        if error:
            raise error
        return outcome

    async def scan_response(self, request: web.Request, texts: Sequence[Text], asked: Extraction) -> ScanOutcome:
        """Scan what a model has written, as the inline proxy does (`responses`); recorded if something is found.

        `asked` is the request that it answers, where that is known: what the user wrote is no finding. A scan longer
        than `scan.deadline` raises `Unavailable` where `failure.answer` is closed.
        """
        if self._personal is None or self.settings.responses == "off":
            return ScanOutcome()
        blocks = self.settings.responses == "block" and not self._monitors(request)
        try:
            findings = await with_timeout(self.settings.scan.deadline, self._findings(self._personal, texts, asked))
        except TimeoutError:
            return self._late(request, closed=blocks and self.settings.failure.answer == "block")
        action = "allow" if not findings else "block" if blocks else "flag"
        ANSWERS.labels(action).inc()
        outcome = ScanOutcome(_of_answer(findings, blocks=blocks), action)
        if findings:
            self._scans.record(scan_context(request, "answer"), outcome, 200)
        return outcome

    def _monitors(self, request: web.Request) -> bool:
        return self._obeyed and self._scans.monitors(request.get(API_KEY))

    async def _findings(self, personal: RulesLayer, texts: Sequence[Text], asked: Extraction) -> tuple[Finding, ...]:
        detector = await ResponseDetector.create(personal, self.settings.answers, asked)
        return tuple(await detector.findings(texts))

    def _late(self, request: web.Request, *, closed: bool) -> ScanOutcome:
        """A response that could not be scanned in time: refused, or passed and named."""
        ANSWERS.labels("block" if closed else "unscanned").inc()
        failed = replace(_of_answer((), blocks=False), failure="deadline")
        outcome = ScanOutcome(failed, "block") if closed else ScanOutcome(failed, "allow", "deadline")
        self._scans.record(scan_context(request, "answer"), outcome, 503 if closed else 200)
        if closed:
            raise refusal(failed)
        return outcome


def _of_answer(found: tuple[Finding, ...], *, blocks: bool) -> Verdict:
    score = max((finding.score for finding in found), default=0.0)
    labels = {finding.label for finding in found}
    return Verdict(
        risk_score=score,
        action=Action.BLOCK if found and blocks else Action.ALLOW,
        threats=tuple(label for label in Label if label in labels),
        latency_ms=0,
        layer_used=LayerName.RULES,
        reports=(LayerReport(LayerName.RULES, score, found),),
    )


def refusal(verdict: Verdict) -> RequestError:
    """The error for a scan that could not be done."""
    if verdict.failure == "overload":
        return _busy()
    if verdict.failure == "too_long":
        return BodyError("oversize", "The text is longer than the scanner reads.", status=422)
    if verdict.failure == "budget":
        return BodyError("budget", TOO_SUSPICIOUS, status=422)
    return Unavailable(f"The prompt could not be scanned ({verdict.failure}).", retry_after=1)


def _busy() -> RequestError:
    return RateLimited("The scanner is busy; try again in 1 s.", retry_after=1)
