"""The scan API of the specification: `POST /api/v1/prompt/scan` and its three variants.

Every route checks the key (401) and the rate (429), reads the body (422), then scans. A successful response has exactly
the fields of the specification; `explain` adds the findings and reports behind the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from sidecar.api.compat.texts import chat_input
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.errors import BodyError
from sidecar.extraction import json_body, scan_request
from sidecar.scan.engine import Engine
from sidecar.scan.results import explanation, scan_result
from sidecar.scan.selection import ScanInput
from sidecar.scan.service import ScanOutcome
from sidecar.server.headers import SCAN_PATHS, scan_key
from sidecar.server.middleware import Gatekeeper, new_decision_id
from sidecar.server.responses import DECISION_ID, joined_names, scan_headers
from sidecar.types import Verdict
from sidecar.util import json

Parse = Callable[[json_body.JsonValue], Any]


class ScanApi:
    """Handlers of the scan API."""

    def __init__(self, engine: Engine, decision_log: DecisionLog, gatekeeper: Gatekeeper, settings: Settings) -> None:
        self._endpoint = ScanEndpoint(engine, decision_log, gatekeeper, settings)

    def routes(self) -> list[web.RouteDef]:
        """The routes to register on the data port."""
        handlers = (self.scan, self.explain, self.batch, self.chat)
        return [web.post(path, handler) for path, handler in zip(SCAN_PATHS, handlers, strict=True)]

    async def scan(self, request: web.Request) -> web.Response:
        """Scan one prompt; returns the six fields."""
        prompt_request = await self._read(request, scan_request.parse_scan)
        return _respond(request, await self._endpoint.scan(request, ScanInput(prompt_request)), scan_result)

    async def explain(self, request: web.Request) -> web.Response:
        """Scan one prompt; returns the six fields with findings and layers; `?layers=all` runs every layer."""
        prompt_request = await self._read(request, scan_request.parse_scan)
        thorough = request.query.get("layers") == "all"
        outcome = await self._endpoint.scan(request, ScanInput(prompt_request), thorough=thorough)
        return _respond(request, outcome, explanation)

    async def chat(self, request: web.Request) -> web.Response:
        """Scan a list of chat messages together; returns the six fields."""
        scan_input: ScanInput = await self._read(request, self._chat)
        return _respond(request, await self._endpoint.scan(request, scan_input), scan_result)

    def _chat(self, document: json_body.JsonValue) -> ScanInput:
        """Read a chat as the inline proxy does."""
        chat_request = scan_request.parse_chat(document)
        scan_input = chat_input(self._endpoint.settings, chat_request.body)
        if chat_request.system_prompt is None:
            return scan_input
        request = replace(scan_input.request, system_prompt=chat_request.system_prompt)
        return scan_input._replace(request=request)

    async def batch(self, request: web.Request) -> web.Response:
        """Scan a list of requests; returns the results in the same order, and names what was unscanned in any."""
        scan_requests = await self._read(request, scan_request.parse_batch)
        outcomes = []
        for item in scan_requests:
            request[DECISION_ID] = new_decision_id()
            outcomes.append(await self._endpoint.scan(request, ScanInput(item)))
        unscanned = joined_names(*dict.fromkeys(outcome.unscanned for outcome in outcomes))
        headers = scan_headers(request[DECISION_ID], unscanned)
        return _json([scan_result(outcome.verdict) for outcome in outcomes], headers)

    async def _read(self, request: web.Request, parse: Parse) -> Any:
        try:
            return await self._endpoint.read(request, scan_key(request.headers), parse)
        except BodyError as error:
            error.status = 422
            raise


def _respond(
    request: web.Request, outcome: ScanOutcome, fields_of: Callable[[Verdict], dict[str, object]]
) -> web.Response:
    return _json(fields_of(outcome.verdict), scan_headers(request[DECISION_ID], outcome.unscanned))


def _json(value: object, headers: dict[str, str]) -> web.Response:
    return web.Response(body=json.dumps(value), content_type="application/json", headers=headers)
