"""agentgateway's guardrail webhook: `POST /request` and `POST /response`.

Shapes from agentgateway's `crates/agentgateway/src/llm/policy/webhook.rs` at commit 013dab18. An action is told by its
fields: `body` and `status_code` reject, a `reason` alone passes. The key comes in a header that the webhook's settings
make or forward (`headers`, `forwardHeaderMatches`).
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.bodies.reading import JsonValue
from sidecar.config import Settings
from sidecar.errors import RequestError
from sidecar.web.answers import blocked_response, detail_response
from sidecar.web.compat.texts import Question, chat, obj, objects
from sidecar.web.desk import Desk

REQUEST, RESPONSE = "/request", "/response"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be scanned; None for an answer of the model, which this route does not look at."""

    question: Question | None


def parse(value: JsonValue, settings: Settings) -> Asked:
    """`{"body": {"messages": [...]}}`, or `{"body": {"choices": [...]}}`. Raises `BodyError`."""
    body = obj(obj(value).get("body"), "'body'")
    if "choices" in body:
        objects(body["choices"], "body.choices")
        return Asked(None)
    return Asked(chat(settings, {"messages": objects(body.get("messages"), "body.messages")}))


async def answer(desk: Desk, request: web.Request, asked: Asked) -> tuple[object, dict[str, str]]:
    """The body and the headers of the answer."""
    if asked.question is None:
        return {"action": {"reason": "answers are not looked at here"}}, {}
    ruling = await desk.judge(request, asked.question.wanted, unread=asked.question.unread)
    if not ruling.blocked:
        return {"action": {"reason": ruling.action}}, ruling.headers
    refused = blocked_response(ruling.verdict, ruling.decision, desk.settings.block, "openai")
    said = {"body": refused.text, "status_code": refused.status, "reason": ", ".join(ruling.verdict.threats)}
    return {"action": said}, ruling.headers


def error(failed: RequestError) -> web.Response:
    """An error: the gateway reads the status alone, and then does as its `failureMode` says."""
    return detail_response(failed)
