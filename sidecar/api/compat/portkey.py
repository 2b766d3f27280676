"""Portkey's webhook guardrail (`default.webhook`): `POST /portkey/webhook`.

Shapes recorded from the gateway 1.15.2 on npm, and from portkey.ai/docs (`bring-your-own-guardrails`). Before a request
`request.json` is its body, read as by the inline proxy according to `requestType`; after it `response.json` is the
answer, scanned if `responses` is on. The gateway derives each `text` from these; what it holds beside them is read,
too. The answer to a streamed request does not come, and is named in `x-sidecar-unscanned`. The gateway lets a request
pass whose webhook has another status than 2xx (unless `failOnError`), so every error is `{"verdict": false}` with the
reason in `data`. Under `pii: redact` the changed body is `transformedData`.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import NO_PROMPT, body_input, leaves, require_object
from sidecar.api.endpoint import REPLACED_VALUES, UNSCANNED_ANSWER, ScanEndpoint, redacted_headers
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.dialect_fields import fields_of
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.proxy.redaction import Redactor
from sidecar.response_scan.detector import Text
from sidecar.response_scan.extraction import pieces
from sidecar.scan.known_values import application_values
from sidecar.scan.selection import ScanInput
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import DECISION_ID, joined_names, retry_headers, scan_headers
from sidecar.types import Segment
from sidecar.util import json

PATH = "/portkey/webhook"
BEFORE, AFTER = "beforeRequestHook", "afterRequestHook"
OPERATIONS = {
    "chatComplete": ("/chat/completions", "openai"),
    "complete": ("/completions", "openai"),
    "embed": ("/embeddings", "openai"),
    "messages": ("/messages", "anthropic"),
}
"""The operation and the API of each `requestType`; the texts of others are read as a user's, wherever they stand."""
OTHER = ("/chat/completions", "openai")


@dataclass(frozen=True, slots=True)
class HookRequest:
    """The prompt to scan; or, if that is None, the texts of the answer and its request."""

    scan_input: ScanInput | None
    body: JsonValue = None
    """The body of the request, with placeholders in place of personal data."""
    response_texts: tuple[Text, ...] = ()
    prompt: Extraction = NO_PROMPT


async def redact(value: JsonValue, redactor: Redactor) -> int:
    """Replace personal data in the body of the request, and in the text that the gateway derived from it."""
    if not isinstance(value, dict) or value.get("eventType") != BEFORE:
        return 0
    request = value.get("request")
    body = request.get("json") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(body, dict):
        return 0
    operation, dialect = _operation(value)
    application = application_values(extract(body, operation, dialect).segments)
    placeholders = await redactor.redact(body, application, fields_of(dialect))
    derived: dict[str, JsonValue] = {"text": request.get("text")}
    await redactor.redact(derived, application)
    request |= derived
    return len(placeholders)


def parse(value: JsonValue, settings: Settings) -> HookRequest:
    """`{"eventType", "requestType", "request": {"json", "text"}, "response": {...}, ...}`. Raises `BodyError`."""
    hook = require_object(value)
    request = require_object(hook.get("request"), "'request'")
    body = require_object(request.get("json"), "'request.json'")
    operation, dialect = _operation(hook)
    if hook.get("eventType") == BEFORE:
        body_texts = {text for text, _ in leaves(body)}
        segments = [Segment(text, path=path) for text, path in leaves(request.get("text"), "request.text")]
        additional = [segment for segment in segments if segment.text and segment.text not in body_texts]
        return HookRequest(body_input(settings, body, operation, dialect, additional), body)
    if hook.get("eventType") != AFTER:
        raise BodyError("malformed", f"'eventType' must be {BEFORE} or {AFTER}.", param="eventType")
    return HookRequest(None, body, _answer(hook.get("response")), extract(body, operation, dialect))


def _operation(hook: dict[str, JsonValue]) -> tuple[str, str]:
    return OPERATIONS.get(str(hook.get("requestType")), OTHER)


def _answer(response: JsonValue) -> tuple[Text, ...]:
    """The texts of the answer's body, and what `text` holds beside them."""
    fields = require_object(response, "'response'")
    texts = [(piece.text, f"response.json.{piece.path}") for piece in pieces(fields.get("json"))]
    body_texts = {text for text, _ in texts}
    return (
        *texts,
        *(text for text in leaves(fields.get("text"), "response.text") if text[0] and text[0] not in body_texts),
    )


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: HookRequest
) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    gap = None
    if api_request.scan_input is not None:
        outcome = await endpoint.scan(request, api_request.scan_input)
        message = refusal_message(endpoint.settings.block.message, outcome.verdict, request[DECISION_ID])
    else:
        outcome = await endpoint.scan_response(request, api_request.response_texts, api_request.prompt)
        message, gap = endpoint.settings.answers.message, None if api_request.response_texts else UNSCANNED_ANSWER
    if not outcome.blocked and request.get(REPLACED_VALUES):
        response = {"verdict": True, "transformedData": {"request": {"json": api_request.body}}}
        return response, redacted_headers(request, outcome)
    headers = scan_headers(request[DECISION_ID], joined_names(outcome.unscanned, gap))
    if not outcome.blocked:
        return {"verdict": True}, headers
    data = {"reason": message, "threats": list(outcome.verdict.threats), "decision": request[DECISION_ID]}
    return {"verdict": False, "data": data}, headers


def error(request_error: RequestError) -> web.Response:
    """An error as a failed check: the gateway lets everything pass that is none."""
    data = {"reason": request_error.detail, "status": request_error.status}
    body = json.dumps({"verdict": False, "data": data})
    return web.Response(body=body, content_type="application/json", headers=retry_headers(request_error))
