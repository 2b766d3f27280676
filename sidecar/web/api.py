"""The specification's door: `POST /api/v1/prompt/scan` and its three relatives.

Every route here asks for a key (401), then the rate (429), then reads the body (422), then scans.
Success holds exactly the fields that the interface names; `explain` adds what the verdict rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from sidecar.bodies import reading, scan_request
from sidecar.config import Settings
from sidecar.engine import Engine
from sidecar.errors import BodyError, RateLimited, RequestError, Unavailable
from sidecar.journal import Journal
from sidecar.types import Action, Decision, Finding, LayerReport, ScanRequest, Verdict
from sidecar.web.answers import DECISION, DECISION_ID, KEY_ID, UNSCANNED
from sidecar.web.caller import caller
from sidecar.web.middleware import Gatekeeper, new_decision_id
from sidecar.web.receive import receive

KEY_HEADER = "X-API-Key"
Parse = Callable[[reading.JsonValue], Any]


class ScanApi:
    """Handlers of the scan door."""

    def __init__(self, engine: Engine, journal: Journal, gatekeeper: Gatekeeper, settings: Settings) -> None:
        self._engine = engine
        self._journal = journal
        self._gatekeeper = gatekeeper
        self._limits = settings.limits

    def routes(self) -> list[web.RouteDef]:
        """The routes to register on the data port."""
        return [
            web.post("/api/v1/prompt/scan", self.scan),
            web.post("/api/v1/prompt/explain", self.explain),
            web.post("/api/v1/prompt/batch", self.batch),
            web.post("/api/v1/chat/scan", self.chat),
        ]

    async def scan(self, request: web.Request) -> web.Response:
        """One prompt in, the six fields out."""
        wanted = await self._read(request, scan_request.parse_scan)
        return self._answer(request, await self._judge(request, wanted), result)

    async def explain(self, request: web.Request) -> web.Response:
        """One prompt in, the six fields and what they rest on out; `?layers=all` asks every layer."""
        wanted = await self._read(request, scan_request.parse_scan)
        thorough = request.query.get("layers") == "all"
        return self._answer(request, await self._judge(request, wanted, thorough=thorough), explanation)

    async def chat(self, request: web.Request) -> web.Response:
        """A list of chat messages in, the six fields for all of them together out."""
        wanted = await self._read(request, scan_request.parse_chat)
        return self._answer(request, await self._judge(request, wanted), result)

    async def batch(self, request: web.Request) -> web.Response:
        """A list of scan requests in, a list of results in the same order out."""
        wanted = await self._read(request, scan_request.parse_batch)
        results = []
        for item in wanted:
            request[DECISION_ID] = new_decision_id()
            results.append(result(_scanned(await self._judge(request, item))))
        return _json(results, {DECISION: request[DECISION_ID]})

    async def _read(self, request: web.Request, parse: Parse) -> Any:
        await self._gatekeeper.admit(request, request.headers.get(KEY_HEADER))
        if not self._journal.healthy:
            raise Unavailable("The scan log cannot be written (log.required).", retry_after=5)
        try:
            raw = reading.decode(
                await receive(request, self._limits),
                content_type=request.headers.get("Content-Type"),
                content_encoding=request.headers.get("Content-Encoding"),
                limit=self._limits.body_bytes,
            )
            return parse(reading.parse(raw, depth=self._limits.depth))
        except BodyError as error:
            error.status = 422
            raise

    async def _judge(self, request: web.Request, wanted: ScanRequest, *, thorough: bool = False) -> Verdict:
        verdict = await self._engine.scan(wanted, caller(request, thorough=thorough))
        self._journal.record(self._decision(request, wanted, verdict))
        return verdict

    def _decision(self, request: web.Request, wanted: ScanRequest, verdict: Verdict) -> Decision:
        text = "\n".join(segment.text for segment in wanted.segments)
        return Decision(
            id=request[DECISION_ID],
            at=datetime.now(UTC),
            door="api",
            route=request.path,
            verdict=verdict,
            action=str(verdict.action),
            status=refusal(verdict).status if refuses(verdict) else 200,
            key_id=request.get(KEY_ID),
            model=wanted.model,
            length=len(text),
            segments=len(wanted.segments),
            digest=self._journal.digest(text),
            unscanned=verdict.failure if verdict.action is Action.ALLOW else None,
            text=self._journal.text_for_log(wanted.segments, verdict),
        )

    def _answer(
        self, request: web.Request, verdict: Verdict, shape: Callable[[Verdict], dict[str, object]]
    ) -> web.Response:
        headers = {DECISION: request[DECISION_ID]}
        if verdict.failure:
            headers[UNSCANNED] = verdict.failure
        return _json(shape(_scanned(verdict)), headers)


def refuses(verdict: Verdict) -> bool:
    """Whether the scan could not be done and the policy is closed."""
    return verdict.failure is not None and verdict.action is Action.BLOCK


def refusal(verdict: Verdict) -> RequestError:
    """The error for a scan that could not be done."""
    if verdict.failure == "overload":
        return RateLimited("The scanner is busy; try again in 1 s.", retry_after=1)
    if verdict.failure == "too_long":
        return BodyError("oversize", "The text is longer than the scanner reads (layers.semantic.windows).", status=422)
    return Unavailable(f"The prompt could not be scanned ({verdict.failure}).", retry_after=1)


def _scanned(verdict: Verdict) -> Verdict:
    if refuses(verdict):
        raise refusal(verdict)
    return verdict


def result(verdict: Verdict) -> dict[str, object]:
    """The six fields of the specification."""
    return {
        "risk_score": verdict.risk_score,
        "action": verdict.action,
        "threats": list(verdict.threats),
        "latency_ms": verdict.latency_ms,
        "layer_used": verdict.layer_used,
        "reasoning": verdict.reasoning,
    }


def explanation(verdict: Verdict) -> dict[str, object]:
    """The six fields, then findings, layers and the policy revision. Holds no text of the prompt."""
    return {
        **result(verdict),
        "findings": [_finding(finding) for finding in verdict.findings],
        "layers": [_layer(report) for report in verdict.reports],
        "policy_revision": verdict.revision,
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "label": finding.label,
        "score": round(finding.score, 4),
        "layer": finding.layer,
        "path": finding.path,
        "start": finding.start,
        "end": finding.end,
        "view": finding.view,
        "decides": finding.decides,
    }


def _layer(report: LayerReport) -> dict[str, object]:
    return {
        "layer": report.layer,
        "score": None if report.score is None else round(report.score, 4),
        "elapsed_ms": round(report.elapsed * 1000, 3),
        "failure": report.failure,
        "detail": dict(report.detail),
    }


def _json(value: object, headers: dict[str, str]) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json", headers=headers)
