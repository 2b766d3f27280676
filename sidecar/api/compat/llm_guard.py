"""LLM Guard API: `POST /analyze/prompt` and `POST /scan/prompt`.

Shapes from `llm_guard_api/app/schemas.py` (commit 20f3f9a) and `app.py` (09bc78d) of protectai/llm-guard. Labels appear
as the scanner of theirs that looks for the same: `PromptInjection`, `InvisibleText`, `Anonymize`. A scanner in
`scanners_suppress` is left out, and a block that rests on suppressed ones alone is none. `sanitized_prompt` is the
prompt unchanged: nothing is rewritten here.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import obj, scores, strings
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.json_body import JsonValue
from sidecar.scan.selection import ScanInput
from sidecar.server.responses import DECISION_ID, scan_headers
from sidecar.types import Label, ScanRequest, Segment
from sidecar.util import json

ANALYZE, SCAN = "/analyze/prompt", "/scan/prompt"
SCANNERS = dict.fromkeys(Label, "PromptInjection") | {
    Label.TOKEN_SMUGGLING: "InvisibleText",
    Label.PII_DETECTED: "Anonymize",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and the scanners whose word does not count."""

    prompt: str
    suppressed: frozenset[str]


def parse(value: JsonValue, _settings: Settings) -> Asked:
    """`{"prompt": str, "scanners_suppress"?: [str]}`. Raises `BodyError`."""
    body = obj(value)
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BodyError("malformed", "The field 'prompt' is required and must be a string.", param="prompt")
    return Asked(prompt, frozenset(strings(body.get("scanners_suppress"), "scanners_suppress")))


async def answer(endpoint: ScanEndpoint, request: web.Request, asked: Asked) -> tuple[object, dict[str, str]]:
    """The body and the headers of the answer."""
    outcome = await endpoint.scan(request, ScanInput(ScanRequest((Segment(asked.prompt),))))
    said: dict[str, float] = {}
    for label, score in scores(outcome.verdict).items():
        name = SCANNERS[label]
        if name not in asked.suppressed:
            said[name] = max(said.get(name, 0.0), score)
    threats = {SCANNERS[label] for label in outcome.verdict.threats}
    valid = not outcome.blocked or bool(threats and threats <= asked.suppressed)
    body: dict[str, object] = {"is_valid": valid, "scanners": said}
    if request.path == ANALYZE:
        body["sanitized_prompt"] = asked.prompt
    return body, scan_headers(request[DECISION_ID], outcome.unscanned)


def error(failed: RequestError) -> web.Response:
    """An error as theirs; a body that is not theirs is 422 there."""
    status = 422 if isinstance(failed, BodyError) else failed.status
    headers = {} if failed.retry_after is None else {"Retry-After": str(failed.retry_after)}
    body = json.dumps({"message": failed.detail, "details": None})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
