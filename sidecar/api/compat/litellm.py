"""LiteLLM's generic guardrail API: `POST /beta/litellm_basic_guardrail_api`.

Shapes from LiteLLM 1.106.2 (`types/proxy/guardrails/guardrail_hooks/generic_guardrail_api.py` and the hook of the same
name). `structured_messages` carry the roles; `texts` that are not among them are scanned as the user's. If there is no
verdict, we respond with 503 and LiteLLM applies its own setting (`unreachable_fallback`, closed by default). Responses
of the model (`input_type: response`) are scanned if `responses` is on.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import (
    chat_input,
    refuse_if_blocked,
    require_object,
    require_objects,
    require_strings,
    user_segments,
)
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import RequestError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.scan.selection import ScanInput
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import DECISION_ID, detail_response, scan_headers

PATH = "/beta/litellm_basic_guardrail_api"
EMPTY_PROMPT = Extraction()


@dataclass(frozen=True, slots=True)
class GuardrailRequest:
    """The prompt to scan; or, if that is None, the texts of the model's response and its conversation."""

    scan_input: ScanInput | None
    response_texts: tuple[tuple[str, str], ...] = ()
    context: Extraction = EMPTY_PROMPT


def parse(value: JsonValue, settings: Settings) -> GuardrailRequest:
    """`{"input_type": "request", "texts"?, "structured_messages"?, "tools"?, "images"?, ...}`. Raises `BodyError`."""
    body = require_object(value)
    messages = require_objects(body.get("structured_messages"), "structured_messages", optional=True)
    if body.get("input_type") == "response":
        texts = require_strings(body.get("texts"), "texts")
        response_texts = tuple((text, f"texts.{number}") for number, text in enumerate(texts))
        return GuardrailRequest(None, response_texts, extract({"messages": messages}, "/chat/completions", "openai"))
    tools = require_objects(body.get("tools"), "tools", optional=True)
    message_texts = set(_leaves(messages))
    loose_texts = user_segments(
        [text for text in require_strings(body.get("texts"), "texts") if text not in message_texts], "texts"
    )
    scan_input = chat_input(settings, {"messages": messages, "tools": tools, "model": body.get("model")}, loose_texts)
    unscanned = scan_input.unscanned
    if require_strings(body.get("images"), "images"):
        refuse_if_blocked(settings, "media")
        unscanned = (*unscanned, "media") if "media" not in unscanned else unscanned
    return GuardrailRequest(ScanInput(scan_input.request, unscanned))


def _leaves(value: JsonValue) -> list[str]:
    """All strings of a value."""
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for child in children for text in _leaves(child)]


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
    if not outcome.blocked:
        return {"action": "NONE"}, scan_headers(request[DECISION_ID], outcome.unscanned)
    threats = ", ".join(outcome.verdict.threats) or "no label"
    reason = f"{message} ({threats})"
    return {"action": "BLOCKED", "blocked_reason": reason}, scan_headers(request[DECISION_ID], outcome.unscanned)


def error(request_error: RequestError) -> web.Response:
    """An error: LiteLLM reads only the status."""
    return detail_response(request_error)
