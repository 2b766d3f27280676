"""The specification's door: `POST /api/v1/prompt/scan` and its three relatives.

Every route here asks for a key (401), then the rate (429), then reads the body (422), then scans.
Success holds exactly the fields that the interface names; `explain` adds what the verdict rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from sidecar.api.compat.texts import chat
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.errors import BodyError
from sidecar.extraction import json_body, scan_request
from sidecar.scan.engine import Engine
from sidecar.scan.selection import ScanInput
from sidecar.scan.service import ScanOutcome
from sidecar.server.middleware import Gatekeeper, new_decision_id
from sidecar.server.responses import DECISION, DECISION_ID, scan_headers
from sidecar.types import Finding, LayerReport, Verdict
from sidecar.util import json

KEY_HEADER = "X-API-Key"
Parse = Callable[[json_body.JsonValue], Any]


class ScanApi:
    """Handlers of the scan door."""

    def __init__(self, engine: Engine, decision_log: DecisionLog, gatekeeper: Gatekeeper, settings: Settings) -> None:
        self._endpoint = ScanEndpoint(engine, decision_log, gatekeeper, settings)

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
        return _answer(request, await self._endpoint.scan(request, ScanInput(wanted)), result)

    async def explain(self, request: web.Request) -> web.Response:
        """One prompt in, the six fields and what they rest on out; `?layers=all` asks every layer."""
        wanted = await self._read(request, scan_request.parse_scan)
        thorough = request.query.get("layers") == "all"
        return _answer(request, await self._endpoint.scan(request, ScanInput(wanted), thorough=thorough), explanation)

    async def chat(self, request: web.Request) -> web.Response:
        """A list of chat messages in, the six fields for all of them together out."""
        asked: ScanInput = await self._read(request, self._chat)
        return _answer(request, await self._endpoint.scan(request, asked), result)

    def _chat(self, document: json_body.JsonValue) -> ScanInput:
        """Read as on the inline door."""
        said = scan_request.parse_chat(document)
        asked = chat(self._endpoint.settings, said.body)
        if said.system_prompt is None:
            return asked
        return replace(asked, request=replace(asked.request, system_prompt=said.system_prompt))

    async def batch(self, request: web.Request) -> web.Response:
        """A list of scan requests in, a list of results in the same order out."""
        wanted = await self._read(request, scan_request.parse_batch)
        results = []
        for item in wanted:
            request[DECISION_ID] = new_decision_id()
            results.append(result((await self._endpoint.scan(request, ScanInput(item))).verdict))
        return _json(results, {DECISION: request[DECISION_ID]})

    async def _read(self, request: web.Request, parse: Parse) -> Any:
        try:
            return await self._endpoint.read(request, request.headers.get(KEY_HEADER), parse)
        except BodyError as error:
            error.status = 422
            raise


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
        "hint": finding.hint,
    }


def _layer(report: LayerReport) -> dict[str, object]:
    return {
        "layer": report.layer,
        "score": None if report.score is None else round(report.score, 4),
        "elapsed_ms": round(report.elapsed * 1000, 3),
        "failure": report.failure,
        "detail": dict(report.detail),
    }


def _answer(request: web.Request, outcome: ScanOutcome, shape: Callable[[Verdict], dict[str, object]]) -> web.Response:
    return _json(shape(outcome.verdict), scan_headers(request[DECISION_ID], outcome.unscanned))


def _json(value: object, headers: dict[str, str]) -> web.Response:
    return web.Response(body=json.dumps(value), content_type="application/json", headers=headers)
