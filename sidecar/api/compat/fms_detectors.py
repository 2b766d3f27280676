"""The detector API of the FMS guardrails orchestrator and TrustyAI: `POST /api/v1/text/...`.

Shapes from foundation-model-stack/fms-guardrails-orchestrator (`docs/api/openapi_detector_api.yaml` at d521e03d and
`src/clients/detector/*.rs`): `contents` are texts, each with its own result; `chat` is a conversation; `context/doc` is
a text with its documents; `generation` is an answer with its prompt. What passes has no detection; what is refused has
one for each finding, with its score and, for `contents`, its place in the text. Messages of the assistant at the end of
a chat are an answer; answers are scanned under `responses`, and where that is off, `x-sidecar-unscanned` names them.
Documents that are addresses (`context_type: url`) are named there, too. `detector-id` and `detector_params` are
ignored: keys and policies are our own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import (
    NO_PROMPT,
    body_input,
    chat_input,
    refuse_if_blocked,
    require_object,
    require_objects,
    require_strings,
    trailing_answer,
    user_segments,
)
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.response_scan.detector import Text
from sidecar.response_scan.placeholders import kind_of
from sidecar.scan.selection import ScanInput, select
from sidecar.scan.service import ScanOutcome
from sidecar.server.middleware import new_decision_id
from sidecar.server.responses import DECISION_ID, joined_names, retry_headers, scan_headers
from sidecar.types import Finding, Label, ScanRequest, Segment, Source
from sidecar.util import json

CONTENTS, CHAT = "/api/v1/text/contents", "/api/v1/text/chat"
DOCUMENTS, GENERATION = "/api/v1/text/context/doc", "/api/v1/text/generation"
MAX_TEXTS = 100


@dataclass(frozen=True, slots=True)
class DetectorRequest:
    """A conversation or a text, and the texts of the answer to be judged with the prompt before it."""

    scan_input: ScanInput
    answer: tuple[Text, ...] = ()
    prompt: Extraction = NO_PROMPT


def parse_contents(value: JsonValue, _settings: Settings) -> list[ScanInput]:
    """`{"contents": [str], "detector_params"?: {...}}`. Raises `BodyError`."""
    contents = require_strings(require_object(value).get("contents"), "contents")
    if not 1 <= len(contents) <= MAX_TEXTS:
        raise BodyError("malformed", f"'contents' must be a list of 1 to {MAX_TEXTS} texts.", param="contents")
    return [ScanInput(ScanRequest((segment,))) for segment in user_segments(contents, "contents")]


def parse_chat(value: JsonValue, settings: Settings) -> DetectorRequest:
    """`{"messages": [...], "tools"?: [...], "detector_params"?: {...}}`. Raises `BodyError`."""
    body = require_object(value)
    messages = require_objects(body.get("messages"), "messages")
    scan_input = chat_input(settings, {"messages": messages, "tools": body.get("tools")})
    return DetectorRequest(scan_input, *trailing_answer(messages))


def parse_documents(value: JsonValue, settings: Settings) -> DetectorRequest:
    """`{"content": str, "context_type": "docs" | "url", "context": [str], ...}`. Raises `BodyError`."""
    body = require_object(value)
    documents = require_strings(body.get("context"), "context")
    segments = [Segment(_text(body, "content"), path="content")]
    segments += [Segment(text, Source.UNTRUSTED, f"context.{number}") for number, text in enumerate(documents)]
    scan_input = select(settings, NO_PROMPT, segments)
    if body.get("context_type") != "url" or not documents:
        return DetectorRequest(scan_input)
    refuse_if_blocked(settings, "reference")
    return DetectorRequest(ScanInput(scan_input.request, ("reference", *scan_input.unscanned)))


def parse_generation(value: JsonValue, settings: Settings) -> DetectorRequest:
    """`{"prompt": str, "generated_text": str, "detector_params"?: {...}}`. Raises `BodyError`."""
    body = require_object(value)
    prompt: dict[str, JsonValue] = {"prompt": _text(body, "prompt")}
    answer = ((_text(body, "generated_text"), "generated_text"),)
    scan_input = body_input(settings, prompt, "/completions", "openai")
    return DetectorRequest(scan_input, answer, extract(prompt, "/completions", "openai"))


PARSERS = {CHAT: parse_chat, DOCUMENTS: parse_documents, GENERATION: parse_generation}


def _text(body: dict[str, JsonValue], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str):
        raise BodyError("malformed", f"The field '{name}' is required and must be a string.", param=name)
    return text


async def respond_to_contents(
    endpoint: ScanEndpoint, request: web.Request, scan_inputs: list[ScanInput]
) -> tuple[object, dict[str, str]]:
    """A list of detections for each text, and the headers of the response."""
    body, unscanned = [], []
    for scan_input in scan_inputs:
        request[DECISION_ID] = new_decision_id()
        outcome = await endpoint.scan(request, scan_input)
        unscanned += [outcome.unscanned] if outcome.unscanned not in unscanned else []
        text = scan_input.request.segments[0].text
        body.append([_detection(outcome, *pair) | _place(text, pair[1]) for pair in _found(outcome)])
    return body, scan_headers(request[DECISION_ID], joined_names(*unscanned))


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: DetectorRequest
) -> tuple[object, dict[str, str]]:
    """The detections of the prompt and of the answer, and the headers of the response."""
    outcome = await endpoint.scan(request, api_request.scan_input)
    answer = await endpoint.scan_response(request, api_request.answer, api_request.prompt)
    body = [_detection(each, *pair) for each in (outcome, answer) for pair in _found(each)]
    return body, scan_headers(request[DECISION_ID], joined_names(outcome.unscanned, answer.unscanned))


def _found(outcome: ScanOutcome) -> Iterator[tuple[Label | None, Finding | None]]:
    """The labels of a refusal, at least one or None, with their findings; None for a label without one."""
    deciding = [finding for finding in outcome.verdict.findings if finding.decides]
    for label in (outcome.verdict.threats or (None,)) if outcome.blocked else ():
        label_findings = [finding for finding in deciding if finding.label is label]
        yield from ((label, finding) for finding in label_findings or (None,))


def _detection(outcome: ScanOutcome, label: Label | None, finding: Finding | None) -> dict[str, object]:
    score = {"score": round(finding.score, 4) if finding else outcome.verdict.risk_score}
    if label is Label.PII_DETECTED:
        return {"detection": kind_of(finding.rule).lower() if finding else "pii", "detection_type": "pii", **score}
    return {"detection": str(label or "blocked"), "detection_type": "prompt_attack", **score}


def _place(text: str, finding: Finding | None) -> dict[str, object]:
    """Where a finding stands; without a place it is the whole text."""
    start, end = (finding.start, finding.end) if finding and finding.start is not None else (0, len(text))
    return {"start": start, "end": end, "text": text[start:end]}


def error(request_error: RequestError) -> web.Response:
    """An error in the format of the detector API; an invalid body is 422."""
    status = 422 if isinstance(request_error, BodyError) else request_error.status
    body = json.dumps({"code": status, "message": request_error.detail})
    headers = retry_headers(request_error)
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
