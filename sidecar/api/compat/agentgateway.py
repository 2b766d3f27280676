"""agentgateway's guardrail webhook: `POST /request` and `POST /response`.

Shapes from agentgateway's `crates/agentgateway/src/llm/policy/webhook.rs` at commit 013dab18. An action is told by its
fields: `body` and `status_code` reject, a `reason` alone passes. The key comes in a header that the webhook's settings
make or forward (`headers`, `forwardHeaderMatches`). Answers are looked at where `responses` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import chat, obj, objects
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.scan.selection import ScanInput
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import DECISION_ID, blocked_response, detail_response, scan_headers

REQUEST, RESPONSE = "/request", "/response"
CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be scanned; or, with no question, what the model has written."""

    question: ScanInput | None
    written: tuple[tuple[str, str], ...] = ()


def parse(value: JsonValue, settings: Settings) -> Asked:
    """`{"body": {"messages": [...]}}`, or `{"body": {"choices": [...]}}`. Raises `BodyError`."""
    body = obj(obj(value).get("body"), "'body'")
    if "choices" in body and "messages" in body:
        raise BodyError("malformed", "'body' must hold messages or choices, not both.")
    if "choices" in body:
        choices = objects(body["choices"], "body.choices")
        found = extract({"messages": [obj(obj(one).get("message"), "'message'") for one in choices]}, CHAT, "openai")
        return Asked(None, tuple((segment.text, segment.path) for segment in found.segments))
    return Asked(chat(settings, {"messages": objects(body.get("messages"), "body.messages")}))


async def answer(endpoint: ScanEndpoint, request: web.Request, asked: Asked) -> tuple[object, dict[str, str]]:
    """The body and the headers of the answer."""
    if asked.question is None:
        outcome = await endpoint.scan_response(request, asked.written, Extraction())
        said = endpoint.settings.answers.message
    else:
        outcome = await endpoint.scan(request, asked.question)
        said = refusal_message(endpoint.settings.block.message, outcome.verdict, request[DECISION_ID])
    if not outcome.blocked:
        return {"action": {"reason": outcome.action}}, scan_headers(request[DECISION_ID], outcome.unscanned)
    refused = blocked_response(outcome.verdict, request[DECISION_ID], endpoint.settings.block, "openai", said)
    reject = {"body": refused.text, "status_code": refused.status, "reason": ", ".join(outcome.verdict.threats)}
    return {"action": reject}, scan_headers(request[DECISION_ID], outcome.unscanned)


def error(failed: RequestError) -> web.Response:
    """An error: the gateway reads the status alone, and then does as its `failureMode` says."""
    return detail_response(failed)
