"""agentgateway's guardrail webhook: `POST /request` and `POST /response`.

Shapes from agentgateway's `crates/agentgateway/src/llm/policy/webhook.rs` at commit 013dab18. The fields of
an action determine its kind: `body` and `status_code` reject, a `body` with messages replaces them (`pii: redact`), a
`reason` alone passes. The key comes in a header that the webhook's settings add or forward (`headers`,
`forwardHeaderMatches`). Responses are scanned if `responses` is on.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import (
    CHAT,
    NO_PROMPT,
    chat_application_values,
    chat_input,
    require_object,
    require_objects,
    unscannable_kinds,
)
from sidecar.api.endpoint import REPLACED_VALUES, ScanEndpoint, redacted_headers
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.extraction import extract
from sidecar.extraction.json_body import JsonValue
from sidecar.proxy.redaction import Redactor
from sidecar.scan.selection import ScanInput
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import DECISION_ID, blocked_response, detail_response, joined_names, scan_headers

REQUEST, RESPONSE = "/request", "/response"


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """The prompt to scan; or, if that is None, the texts of the model's response."""

    scan_input: ScanInput | None
    response_texts: tuple[tuple[str, str], ...] = ()
    messages: tuple[JsonValue, ...] = ()
    """All messages of the prompt, with placeholders in place of personal data."""
    unscanned: str | None = None
    """What no layer reads in a response."""


async def redact(value: JsonValue, redactor: Redactor) -> int:
    """Replace personal data in the messages."""
    body = value.get("body") if isinstance(value, dict) else None
    messages = body.get("messages") if isinstance(body, dict) else None
    return len(await redactor.redact(messages, chat_application_values(messages)))


def parse(value: JsonValue, settings: Settings) -> WebhookRequest:
    """`{"body": {"messages": [...]}}`, or `{"body": {"choices": [...]}}`. Raises `BodyError`."""
    body = require_object(require_object(value).get("body"), "'body'")
    if "choices" in body and "messages" in body:
        raise BodyError("malformed", "'body' must hold messages or choices, not both.")
    if "choices" in body:
        choices = require_objects(body["choices"], "body.choices")
        response = extract(
            {"messages": [require_object(require_object(choice).get("message"), "'message'") for choice in choices]},
            CHAT,
            "openai",
        )
        texts = tuple((segment.text, segment.path) for segment in response.segments)
        return WebhookRequest(None, texts, unscanned=joined_names(*unscannable_kinds(response)))
    messages = require_objects(body.get("messages"), "body.messages")
    return WebhookRequest(chat_input(settings, {"messages": messages}), messages=tuple(messages))


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: WebhookRequest
) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    if api_request.scan_input is None:
        outcome = await endpoint.scan_response(request, api_request.response_texts, NO_PROMPT)
        message = endpoint.settings.answers.message
    else:
        outcome = await endpoint.scan(request, api_request.scan_input)
        message = refusal_message(endpoint.settings.block.message, outcome.verdict, request[DECISION_ID])
    if not outcome.blocked and request.get(REPLACED_VALUES):
        mask = {"body": {"messages": list(api_request.messages)}, "reason": "personal data replaced"}
        return {"action": mask}, redacted_headers(request, outcome)
    headers = scan_headers(request[DECISION_ID], joined_names(outcome.unscanned, api_request.unscanned))
    if not outcome.blocked:
        return {"action": {"reason": outcome.action}}, headers
    block = blocked_response(outcome.verdict, request[DECISION_ID], endpoint.settings.block, "openai", message)
    reject = {"body": block.text, "status_code": block.status, "reason": ", ".join(outcome.verdict.threats)}
    return {"action": reject}, headers


def error(request_error: RequestError) -> web.Response:
    """An error: the gateway reads only the status, and then applies its `failureMode`."""
    return detail_response(request_error)
