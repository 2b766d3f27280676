"""Common request handling of the scan API and the adapters in `compat`.

Order of the steps: key (401), rate (429), body, scan, record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from aiohttp import web

from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError, RateLimited, RequestError, Unavailable
from sidecar.extraction import json_body
from sidecar.extraction.extraction import Extraction
from sidecar.limits import OverBudget
from sidecar.limits.memory_budget import SMALL_BODY
from sidecar.observability.metrics import ANSWERS
from sidecar.proxy.redaction import Redactor
from sidecar.response_scan.detector import ResponseDetector, Text
from sidecar.scan.engine import Engine
from sidecar.scan.selection import ScanInput
from sidecar.scan.service import ScanContext, ScanOutcome, ScanService
from sidecar.server.body import decode_body, read_body, run_off_loop
from sidecar.server.caller import API_KEY, scan_context
from sidecar.server.middleware import Gatekeeper
from sidecar.server.receipts import RECEIPT
from sidecar.server.responses import DECISION_ID, REPLACED, TOO_SUSPICIOUS, joined_names, scan_headers
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict
from sidecar.util.timeouts import with_timeout

T = TypeVar("T")
UNSCANNED_ANSWER = "answer"
"""Named in `x-sidecar-unscanned` where a response of the model is asked about and `responses` is off."""
UNSCANNED_ACTIONS = "actions"
"""Named there if `actions` is on: the inline proxy alone has the request and the response whole, and judges them."""
Redact = Callable[[json_body.JsonValue, Redactor], Awaitable[int]]
"""Replaces personal data in a body in place; returns how many values it replaced."""
REPLACED_VALUES = web.RequestKey("replaced_values", int)
"""How many values of personal data were replaced in the body."""


class ScanEndpoint:
    """Reads, scans and records requests under given settings.

    `applies_mode`: the caller obeys the outcome, so `mode: monitor` applies; else the caller decides for itself.
    """

    def __init__(
        self,
        engine: Engine,
        decision_log: DecisionLog,
        gatekeeper: Gatekeeper,
        settings: Settings,
        *,
        entrypoint: str = "api",
        applies_mode: bool = False,
        pii_rules: RulesLayer | None = None,
    ) -> None:
        self.settings = settings
        self._pii_rules = pii_rules
        self._redactor = Redactor(pii_rules) if pii_rules is not None and settings.pii == "redact" else None
        self._scans, self._gatekeeper = ScanService(engine, settings, decision_log), gatekeeper
        self._entrypoint, self._applies_mode = entrypoint, applies_mode

    async def read(
        self,
        request: web.Request,
        key: str | None,
        parse: Callable[[json_body.JsonValue], T],
        redact: Redact | None = None,
    ) -> T:
        """The parsed body, after checking key and rate. Raises `RequestError`.

        `redact`: replaces personal data in the body where the response can return the changed texts (`pii: redact`).
        """
        await self._gatekeeper.admit(request, key)
        self._scans.admit()
        limits = self.settings.limits
        try:
            raw = await read_body(request, limits)
            decoded = await decode_body(request, raw, request.headers.get("Content-Type"), limits)
        except OverBudget:
            self._gatekeeper.count_busy(request)
            raise _busy_error() from None
        if len(decoded) > SMALL_BODY:
            await self._gatekeeper.charge(request, len(decoded))
        document = await run_off_loop(decoded, partial(json_body.parse, decoded, depth=limits.depth))
        if redact is not None and self._redactor is not None and not self._monitors(request):
            request[REPLACED_VALUES] = await redact(document, self._redactor)
        return await run_off_loop(decoded, parse, document)

    async def scan(self, request: web.Request, scan_input: ScanInput, *, thorough: bool = False) -> ScanOutcome:
        """Scan and record. Raises `RequestError` if it could not be scanned and the policy blocks that."""
        context = self._context(request, self._entrypoint)
        verdict = await self._scans.scan(scan_input.request, context, thorough=thorough)
        outcome = self._scans.decide(verdict, scan_input.unscanned, monitored=self._monitors(request))
        error = scan_failure_error(verdict) if outcome.failure else None
        scanned = scan_input.request
        status = error.status if error else 200
        replaced = request.get(REPLACED_VALUES, 0)
        receipt = self._scans.record(context, outcome, status, scanned.segments, scanned.model, scanned.tools, replaced)
        if receipt is not None:
            request[RECEIPT] = receipt
        if isinstance(error, RateLimited):
            self._gatekeeper.count_busy(request)
        if error:
            raise error
        return outcome

    async def scan_response(self, request: web.Request, texts: Sequence[Text], prompt: Extraction) -> ScanOutcome:
        """Scan a response of the model, as the inline proxy does (`responses`); recorded if there are findings.

        `prompt` is the request that it answers, if known: data that the user wrote is no finding. A scan longer than
        `scan.deadline` raises `Unavailable` if `failure.answer` is `block`. Its actions are not judged, but named.
        """
        outcome = await self._scan_texts(request, texts, prompt)
        if not texts or outcome.blocked or self.settings.actions.mode == "off":
            return outcome
        return replace(outcome, unscanned=joined_names(outcome.unscanned, UNSCANNED_ACTIONS))

    async def _scan_texts(self, request: web.Request, texts: Sequence[Text], prompt: Extraction) -> ScanOutcome:
        if not texts:
            return ScanOutcome()
        if self._pii_rules is None or self.settings.responses == "off":
            return ScanOutcome(unscanned=UNSCANNED_ANSWER)
        blocks = self.settings.responses == "block" and not self._monitors(request)
        try:
            findings = await with_timeout(self.settings.scan.deadline, self._findings(self._pii_rules, texts, prompt))
        except TimeoutError:
            return self._timeout_outcome(request, closed=blocks and self.settings.failure.answer == "block")
        action = "allow" if not findings else "block" if blocks else "flag"
        ANSWERS.labels(action).inc()
        outcome = ScanOutcome(_response_verdict(findings, blocks=blocks), action)
        if findings:
            self._scans.record(self._context(request, "answer"), outcome, 200)
        return outcome

    def _context(self, request: web.Request, entrypoint: str) -> ScanContext:
        return scan_context(
            request, request[DECISION_ID], entrypoint, request.path, self.settings.listen.trusted_proxies
        )

    def _monitors(self, request: web.Request) -> bool:
        return self._applies_mode and self._scans.monitors(request.get(API_KEY))

    async def _findings(self, pii_rules: RulesLayer, texts: Sequence[Text], prompt: Extraction) -> tuple[Finding, ...]:
        detector = await ResponseDetector.create(pii_rules, self.settings.answers, prompt)
        return tuple(await detector.findings(texts))

    def _timeout_outcome(self, request: web.Request, *, closed: bool) -> ScanOutcome:
        """The outcome for a response that was not scanned in time: refused, or passed as unscanned."""
        ANSWERS.labels("block" if closed else "unscanned").inc()
        verdict = replace(_response_verdict((), blocks=False), failure="deadline")
        outcome = ScanOutcome(verdict, "block") if closed else ScanOutcome(verdict, "allow", "deadline")
        self._scans.record(self._context(request, "answer"), outcome, 503 if closed else 200)
        if closed:
            raise scan_failure_error(verdict)
        return outcome


def redacted_headers(request: web.Request, outcome: ScanOutcome) -> dict[str, str]:
    """The headers of a response that holds the changed texts."""
    return scan_headers(request[DECISION_ID], outcome.unscanned) | {REPLACED: str(request.get(REPLACED_VALUES, 0))}


def _response_verdict(findings: tuple[Finding, ...], *, blocks: bool) -> Verdict:
    score = max((finding.score for finding in findings), default=0.0)
    labels = {finding.label for finding in findings}
    return Verdict(
        risk_score=score,
        action=Action.BLOCK if findings and blocks else Action.ALLOW,
        threats=tuple(label for label in Label if label in labels),
        latency_ms=0,
        layer_used=LayerName.RULES,
        reports=(LayerReport(LayerName.RULES, score, findings),),
    )


def scan_failure_error(verdict: Verdict) -> RequestError:
    """The error for a request that could not be scanned."""
    if verdict.failure == "overload":
        return _busy_error()
    if verdict.failure == "too_long":
        return BodyError("oversize", "The text is longer than the scanner reads.", status=422)
    if verdict.failure == "budget":
        return BodyError("budget", TOO_SUSPICIOUS, status=422)
    return Unavailable(f"The prompt could not be scanned ({verdict.failure}).", retry_after=1)


def _busy_error() -> RequestError:
    return RateLimited("The scanner is busy; try again in 1 s.", retry_after=1)
