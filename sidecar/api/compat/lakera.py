"""Lakera Guard v2: `POST /v2/guard`.

Shapes from docs.lakera.ai (`api-reference/api/endpoints/guard`) and from the client in LiteLLM 1.110.2
(`types/proxy/guardrails/guardrail_hooks/lakera_ai_v2.py`). Injection, jailbreak, extraction and smuggling are its
`prompt_attack`, personal data is `pii/email` and the like. `flagged` follows the verdict: personal data alone is listed
and, below the threshold, not flagged, unless `pii` says so. Messages of the assistant at the end are the answer to be
judged (LiteLLM's `post_call` appends one per choice): they are scanned under `responses`, and where that is off,
`x-sidecar-unscanned` names them.
`project_id` and `metadata` are ignored: keys and policies are our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from aiohttp import web

from sidecar import __version__
from sidecar.api.compat.texts import NO_PROMPT, chat_input, require_object, require_objects, trailing_answer
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import RequestError
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.json_body import JsonValue
from sidecar.response_scan.detector import Text
from sidecar.response_scan.placeholders import kind_of
from sidecar.scan.selection import ScanInput
from sidecar.server.responses import DECISION_ID, detail_response, joined_names, scan_headers
from sidecar.types import Finding, Label, Verdict

PATH = "/v2/guard"
ATTACK = "prompt_attack"
_OPTIONS = ("breakdown", "payload", "dev_info")
_LAKERA_NAMES = {"phone": "phone_number", "card": "credit_card", "iban": "iban_code", "ip": "ip_address"}
_IDS = {"project_id": "prompt-sidecar", "policy_id": "prompt-sidecar"}


@dataclass(frozen=True, slots=True)
class GuardRequest:
    """A chat, and the optional parts of the response."""

    scan_input: ScanInput
    breakdown: bool
    payload: bool
    dev_info: bool
    answer: tuple[Text, ...] = ()
    """The texts of the answer to be judged."""
    prompt: Extraction = NO_PROMPT


def parse(value: JsonValue, settings: Settings) -> GuardRequest:
    """`{"messages": [...], "breakdown"?: bool, "payload"?: bool, "dev_info"?: bool}`. Raises `BodyError`."""
    body = require_object(value)
    messages = require_objects(body.get("messages"), "messages")
    scan_input = chat_input(settings, {"messages": messages})
    answer, prompt = trailing_answer(messages)
    breakdown, payload, dev_info = (body.get(name) is True for name in _OPTIONS)
    return GuardRequest(scan_input, breakdown, payload, dev_info, answer, prompt)


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: GuardRequest
) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    outcome = await endpoint.scan(request, api_request.scan_input)
    answer = await endpoint.scan_response(request, api_request.answer, api_request.prompt)
    unscanned = joined_names(outcome.unscanned, answer.unscanned)
    name = UUID(hex=request[DECISION_ID].removeprefix("dec_").ljust(32, "0"))
    body: dict[str, object] = {"flagged": outcome.blocked or answer.blocked, "metadata": {"request_uuid": str(name)}}
    if api_request.breakdown:
        body["breakdown"] = list(_breakdown(outcome.verdict, answer.verdict))
    if api_request.payload:
        body["payload"] = [
            *_payload(outcome.verdict, {s.path: s.text for s in api_request.scan_input.request.segments}),
            *_payload(answer.verdict, {path: text for text, path in api_request.answer}),
        ]
    if api_request.dev_info:
        body["dev_info"] = {"version": __version__, "model_version": outcome.verdict.revision}
    return body, scan_headers(request[DECISION_ID], unscanned)


def _detector(finding: Finding) -> str:
    if finding.label is not Label.PII_DETECTED:
        return ATTACK
    kind = kind_of(finding.rule).lower()
    return f"pii/{_LAKERA_NAMES.get(kind, kind)}"


def _breakdown(*verdicts: Verdict) -> Iterator[dict[str, object]]:
    """One line per detector with findings, or a single negative line if there are none.

    An attack without a finding, such as a judge's, gets a line, too: clients allow requests with `pii` alone.
    """
    findings = [finding for verdict in verdicts for finding in verdict.findings if finding.decides]
    detections = {(_detector(finding), _message(finding)) for finding in findings}
    has_attack = any(label is not Label.PII_DETECTED for verdict in verdicts for label in verdict.threats)
    if has_attack and ATTACK not in {kind for kind, _ in detections}:
        detections.add((ATTACK, 0))
    lines = [(kind, True, message) for kind, message in sorted(detections)] or [(ATTACK, False, 0)]
    for kind, detected, message in lines:
        facts = {"detector_id": f"detector-{kind}", "detector_type": kind, "detected": detected, "message_id": message}
        yield {**_IDS, **facts}


def _payload(verdict: Verdict, texts: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """Personal data with its offsets in the caller's text. `texts`: by path."""
    for finding in verdict.findings:
        text = texts.get(finding.path)
        if finding.label is Label.PII_DETECTED and finding.decides and text is not None and finding.start is not None:
            span = {"start": finding.start, "end": finding.end, "text": text[finding.start : finding.end]}
            yield {**span, "detector_type": _detector(finding), "labels": [], "message_id": _message(finding)}


def _message(finding: Finding) -> int:
    """The number of the message, from `messages.2.content`."""
    number = finding.path.split(".")[1:2]
    return int(number[0]) if number and number[0].isdigit() else 0


def error(request_error: RequestError) -> web.Response:
    """An error in our own format: Lakera's is not documented."""
    return detail_response(request_error)
