"""LiteLLM's generic guardrail API: `POST /beta/litellm_basic_guardrail_api`.

Shapes from LiteLLM 1.110.2 (`types/proxy/guardrails/guardrail_hooks/generic_guardrail_api.py` and the hook of the same
name). `structured_messages` carry the roles; `texts` that are not among them are scanned as the user's, `tool_calls` as
the model's. If there is no verdict, we respond with 503 and LiteLLM applies its own setting (`unreachable_fallback`,
closed by default). Responses of the model (`input_type: response`) are scanned if `responses` is on; images in them are
named as unscanned. LiteLLM replaces `texts` alone, so under `pii: redact` personal data anywhere else is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import (
    CHAT,
    NO_PROMPT,
    chat_application_values,
    chat_input,
    leaves,
    refuse_if_blocked,
    require_object,
    require_objects,
    require_strings,
    user_segments,
)
from sidecar.api.endpoint import REPLACED_VALUES, ScanEndpoint, redacted_headers
from sidecar.config import Settings
from sidecar.errors import RequestError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.strings import slots
from sidecar.proxy.redaction import Redactor
from sidecar.scan.selection import ScanInput
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import DECISION_ID, detail_response, joined_names, scan_headers

PATH = "/beta/litellm_basic_guardrail_api"


@dataclass(frozen=True, slots=True)
class GuardrailRequest:
    """The prompt to scan; or, if that is None, the texts of the model's response and its conversation."""

    scan_input: ScanInput | None
    response_texts: tuple[tuple[str, str], ...] = ()
    context: Extraction = NO_PROMPT
    texts: tuple[str, ...] = ()
    """All texts of the prompt, with placeholders in place of personal data."""
    unscanned: str | None = None
    """What no layer reads in a response."""


async def redact(value: JsonValue, redactor: Redactor) -> int:
    """Replace personal data in `texts`, and the same texts among the messages."""
    if not isinstance(value, dict) or not isinstance(texts := value.get("texts"), list) or _is_response(value):
        return 0
    originals, messages = list(texts), value.get("structured_messages")
    placeholders = await redactor.redact(texts, chat_application_values(messages))
    replaced = {old: new for old, new in zip(originals, texts, strict=True) if isinstance(old, str) and old != new}
    for slot in slots(messages) if replaced else ():
        if slot.text in replaced:
            slot.put(str(replaced[slot.text]))
    return len(placeholders)


def _is_response(body: dict[str, JsonValue]) -> bool:
    return body.get("input_type") == "response"


def parse(value: JsonValue, settings: Settings) -> GuardrailRequest:
    """`{"input_type": "request", "texts"?, "structured_messages"?, "tools"?, "images"?, ...}`. Raises `BodyError`."""
    body = require_object(value)
    messages = require_objects(body.get("structured_messages"), "structured_messages", optional=True)
    texts = require_strings(body.get("texts"), "texts")
    tool_calls = require_objects(body.get("tool_calls"), "tool_calls", optional=True)
    images = require_strings(body.get("images"), "images")
    if _is_response(body):
        answer = extract({"messages": [{"role": "assistant", "tool_calls": tool_calls}]}, CHAT, "openai").segments
        response_texts = [(text, f"texts.{number}") for number, text in enumerate(texts)]
        response_texts += [(segment.text, segment.path.removeprefix("messages.0.")) for segment in answer]
        prompt, media = extract({"messages": messages}, CHAT, "openai"), "media" if images else None
        return GuardrailRequest(None, tuple(response_texts), prompt, unscanned=media)
    tools = require_objects(body.get("tools"), "tools", optional=True)
    message_texts = {text for text, _ in leaves(messages)}
    loose_texts = user_segments([text for text in texts if text not in message_texts], "texts")
    if new_calls := [call for call in tool_calls if not message_texts.issuperset(text for text, _ in leaves(call))]:
        messages = [*messages, {"role": "assistant", "tool_calls": new_calls}]
    scan_input = chat_input(settings, {"messages": messages, "tools": tools, "model": body.get("model")}, loose_texts)
    unscanned = scan_input.unscanned
    if images:
        refuse_if_blocked(settings, "media")
        unscanned = (*unscanned, "media") if "media" not in unscanned else unscanned
    return GuardrailRequest(ScanInput(scan_input.request, unscanned), texts=tuple(texts))


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: GuardrailRequest
) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    if api_request.scan_input is None:
        outcome = await endpoint.scan_response(request, api_request.response_texts, api_request.context)
        message = endpoint.settings.answers.message
    else:
        outcome = await endpoint.scan(request, api_request.scan_input)
        message = refusal_message(endpoint.settings.block.message, outcome.verdict, request[DECISION_ID])
    if not outcome.blocked and request.get(REPLACED_VALUES):
        body = {"action": "GUARDRAIL_INTERVENED", "texts": list(api_request.texts)}
        return body, redacted_headers(request, outcome)
    headers = scan_headers(request[DECISION_ID], joined_names(outcome.unscanned, api_request.unscanned))
    if not outcome.blocked:
        return {"action": "NONE"}, headers
    threats = ", ".join(outcome.verdict.threats) or "no label"
    return {"action": "BLOCKED", "blocked_reason": f"{message} ({threats})"}, headers


def error(request_error: RequestError) -> web.Response:
    """An error: LiteLLM reads only the status."""
    return detail_response(request_error)
