"""agentgateway's guardrail webhook: `POST /request` and `POST /response`.

Shapes from agentgateway's `crates/agentgateway/src/llm/policy/webhook.rs` at commit 013dab18. An action is told by its
fields: `body` and `status_code` reject, a `reason` alone passes. The key comes in a header that the webhook's settings
make or forward (`headers`, `forwardHeaderMatches`). Answers are looked at where `responses` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import Question, chat, obj, objects
from sidecar.api.service import Desk
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import blocked_response, detail_response

REQUEST, RESPONSE = "/request", "/response"
CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be scanned; or, with no question, what the model has written."""

    question: Question | None
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


async def answer(desk: Desk, request: web.Request, asked: Asked) -> tuple[object, dict[str, str]]:
    """The body and the headers of the answer."""
    if asked.question is None:
        ruling = await desk.look(request, asked.written, Extraction())
        said = desk.settings.answers.message
    else:
        ruling = await desk.judge(request, asked.question.wanted, unread=asked.question.unread)
        said = refusal_message(desk.settings.block.message, ruling.verdict, ruling.decision)
    if not ruling.blocked:
        return {"action": {"reason": ruling.action}}, ruling.headers
    refused = blocked_response(ruling.verdict, ruling.decision, desk.settings.block, "openai", said)
    reject = {"body": refused.text, "status_code": refused.status, "reason": ", ".join(ruling.verdict.threats)}
    return {"action": reject}, ruling.headers


def error(failed: RequestError) -> web.Response:
    """An error: the gateway reads the status alone, and then does as its `failureMode` says."""
    return detail_response(failed)
