"""LiteLLM's generic guardrail API: `POST /beta/litellm_basic_guardrail_api`.

Shapes from LiteLLM 1.106.2 (`types/proxy/guardrails/guardrail_hooks/generic_guardrail_api.py` and the hook of the same
name). `structured_messages` say who speaks; `texts` that are not among them are scanned as a user's. What LiteLLM does
when no verdict can be had is its own setting (`unreachable_fallback`, closed by default): we answer 503 then. Answers
of the model (`input_type: response`) are looked at where `responses` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import chat, obj, objects, refuse_if_closed, said, strings
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import RequestError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.scan.selection import ScanInput
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import DECISION_ID, detail_response, scan_headers

PATH = "/beta/litellm_basic_guardrail_api"
NOTHING = Extraction()


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be scanned; or, with no question, what the model has written and what it answers to."""

    question: ScanInput | None
    written: tuple[tuple[str, str], ...] = ()
    context: Extraction = NOTHING


def parse(value: JsonValue, settings: Settings) -> Asked:
    """`{"input_type": "request", "texts"?, "structured_messages"?, "tools"?, "images"?, ...}`. Raises `BodyError`."""
    body = obj(value)
    messages = objects(body.get("structured_messages"), "structured_messages", optional=True)
    if body.get("input_type") == "response":
        texts = strings(body.get("texts"), "texts")
        written = tuple((text, f"texts.{number}") for number, text in enumerate(texts))
        return Asked(None, written, extract({"messages": messages}, "/chat/completions", "openai"))
    tools = objects(body.get("tools"), "tools", optional=True)
    known = set(_leaves(messages))
    more = said([text for text in strings(body.get("texts"), "texts") if text not in known], "texts")
    question = chat(settings, {"messages": messages, "tools": tools, "model": body.get("model")}, more)
    unscanned = question.unscanned
    if strings(body.get("images"), "images"):
        refuse_if_closed(settings, "media")
        unscanned = (*unscanned, "media") if "media" not in unscanned else unscanned
    return Asked(ScanInput(question.request, unscanned))


def _leaves(value: JsonValue) -> list[str]:
    """All strings of a value."""
    if isinstance(value, str):
        return [value]
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for child in below for text in _leaves(child)]


async def answer(endpoint: ScanEndpoint, request: web.Request, asked: Asked) -> tuple[object, dict[str, str]]:
    """The body and the headers of the answer."""
    if asked.question is None:
        outcome, said = (
            await endpoint.scan_response(request, asked.written, asked.context),
            endpoint.settings.answers.message,
        )
    else:
        outcome = await endpoint.scan(request, asked.question)
        said = refusal_message(endpoint.settings.block.message, outcome.verdict, request[DECISION_ID])
    if not outcome.blocked:
        return {"action": "NONE"}, scan_headers(request[DECISION_ID], outcome.unscanned)
    threats = ", ".join(outcome.verdict.threats) or "no label"
    reason = f"{said} ({threats})"
    return {"action": "BLOCKED", "blocked_reason": reason}, scan_headers(request[DECISION_ID], outcome.unscanned)


def error(failed: RequestError) -> web.Response:
    """An error: LiteLLM reads the status alone."""
    return detail_response(failed)
