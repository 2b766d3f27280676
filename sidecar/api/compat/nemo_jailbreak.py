"""The jailbreak detector that NeMo Guardrails' flow `jailbreak detection model` asks: `POST /v1/classify`.

Shapes from nemoguardrails 0.24.1 (`library/jailbreak_detection/request.py`), which posts `{"input": str}` to
`nim_base_url` with its `api_key` as the bearer token, and reads `jailbreak`. It lets a prompt pass that gets another
status than 200, so every error is `{"jailbreak": true}` with the reason in `error`.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.api.compat.texts import require_object
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.json_body import JsonValue
from sidecar.scan.selection import ScanInput
from sidecar.server.responses import DECISION_ID, scan_headers
from sidecar.types import ScanRequest, Segment
from sidecar.util import json

CLASSIFY = "/v1/classify"


def parse(value: JsonValue, _settings: Settings) -> ScanInput:
    """`{"input": str}`. Raises `BodyError`."""
    text = require_object(value).get("input")
    if not isinstance(text, str):
        raise BodyError("malformed", "The field 'input' is required and must be a string.", param="input")
    return ScanInput(ScanRequest((Segment(text, path="input"),)))


async def respond(endpoint: ScanEndpoint, request: web.Request, scan_input: ScanInput) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    outcome = await endpoint.scan(request, scan_input)
    body = {"jailbreak": outcome.blocked, "score": outcome.verdict.risk_score}
    return body, scan_headers(request[DECISION_ID], outcome.unscanned)


def error(request_error: RequestError) -> web.Response:
    """An error as a refusal: NeMo Guardrails lets everything pass that is none."""
    reason = {"status": request_error.status, "detail": request_error.detail}
    body = json.dumps({"jailbreak": True, "score": 1.0, "error": reason})
    headers = {} if request_error.retry_after is None else {"Retry-After": str(request_error.retry_after)}
    return web.Response(body=body, content_type="application/json", headers=headers)
