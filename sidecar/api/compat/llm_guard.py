"""LLM Guard API: `POST /analyze/prompt` and `POST /scan/prompt`.

Shapes from `llm_guard_api/app/schemas.py` (commit 20f3f9a) and `app.py` (09bc78d) of protectai/llm-guard. Labels are
mapped to the equivalent scanners: `PromptInjection`, `InvisibleText`, `Anonymize`. Scanners in `scanners_suppress` are
omitted, and a block by suppressed scanners alone does not count; under `pii: block` and `pii: redact` the operator has
decided on personal data, and `Anonymize` cannot be suppressed. `sanitized_prompt` is the prompt, under `pii: redact`
with placeholders for personal data, and valid if nothing else is found; `/scan/prompt` cannot return it and blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import require_object, require_strings, scores
from sidecar.api.endpoint import REPLACED_VALUES, ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.json_body import JsonValue
from sidecar.proxy.redaction import Redactor
from sidecar.scan.selection import ScanInput
from sidecar.server.responses import DECISION_ID, scan_headers
from sidecar.types import Label, ScanRequest, Segment
from sidecar.util import json

ANALYZE, SCAN = "/analyze/prompt", "/scan/prompt"
ANONYMIZE = "Anonymize"
SCANNERS = dict.fromkeys(Label, "PromptInjection") | {
    Label.TOKEN_SMUGGLING: "InvisibleText",
    Label.PII_DETECTED: ANONYMIZE,
}


@dataclass(frozen=True, slots=True)
class AnalyzeRequest:
    """A prompt, and the scanners that are ignored."""

    prompt: str
    suppressed: frozenset[str]


async def redact(value: JsonValue, redactor: Redactor) -> int:
    """Replace personal data in the prompt."""
    return len(await redactor.redact(value)) if isinstance(value, dict) else 0


def parse(value: JsonValue, settings: Settings) -> AnalyzeRequest:
    """`{"prompt": str, "scanners_suppress"?: [str]}`. Raises `BodyError`."""
    body = require_object(value)
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BodyError("malformed", "The field 'prompt' is required and must be a string.", param="prompt")
    suppressed = frozenset(require_strings(body.get("scanners_suppress"), "scanners_suppress"))
    return AnalyzeRequest(prompt, suppressed if settings.pii == "flag" else suppressed - {ANONYMIZE})


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: AnalyzeRequest
) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    outcome = await endpoint.scan(request, ScanInput(ScanRequest((Segment(api_request.prompt),))))
    scanner_scores: dict[str, float] = {}
    for label, score in scores(outcome.verdict).items():
        name = SCANNERS[label]
        if name not in api_request.suppressed:
            scanner_scores[name] = max(scanner_scores.get(name, 0.0), score)
    if request.get(REPLACED_VALUES) and ANONYMIZE in scanner_scores:
        scanner_scores[ANONYMIZE] = 1.0
    threats = {SCANNERS[label] for label in outcome.verdict.threats}
    valid = not outcome.blocked or bool(threats and threats <= api_request.suppressed)
    body: dict[str, object] = {"is_valid": valid, "scanners": scanner_scores}
    if request.path == ANALYZE:
        body["sanitized_prompt"] = api_request.prompt
    return body, scan_headers(request[DECISION_ID], outcome.unscanned)


def error(request_error: RequestError) -> web.Response:
    """An error in the format of LLM Guard; an invalid body is 422."""
    status = 422 if isinstance(request_error, BodyError) else request_error.status
    headers = {} if request_error.retry_after is None else {"Retry-After": str(request_error.retry_after)}
    body = json.dumps({"message": request_error.detail, "details": None})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
