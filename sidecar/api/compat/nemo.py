"""The checks of NVIDIA NeMo Guardrails: `POST /v1/guardrail/checks`, and the path of NeMo Platform for the same.

Shapes from the client nemo-microservices 1.5.0 (`types/guardrail_check_params.py`, `guardrail_check_response.py`) and
from docs.nvidia.com/nemo (`guardrails/concepts/checks`); the second path is that of NeMo Platform's API reference
for the workspace `default`.
`status` follows the verdict; the rails of `rails_status` are our labels. Messages of the assistant at the end are the
answer to be judged: they are scanned under `responses`, and where that is off, `x-sidecar-unscanned` names them.
`guardrails.context` and `guardrails.state` are read as texts from outside the conversation. Configurations are
ignored: keys and policies are our own.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import NO_PROMPT, chat_input, leaves, require_object, require_objects, trailing_answer
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import RequestError
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.json_body import JsonValue
from sidecar.response_scan.detector import Text
from sidecar.scan.selection import ScanInput
from sidecar.server.responses import DECISION_ID, detail_response, joined_names, scan_headers
from sidecar.types import Label, Segment, Source, Verdict

CHECKS, PLATFORM_CHECKS = "/v1/guardrail/checks", "/apis/guardrails/v2/workspaces/default/checks"


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """A chat, and the texts of the answer to be judged with the conversation before it."""

    scan_input: ScanInput
    answer: tuple[Text, ...] = ()
    prompt: Extraction = NO_PROMPT


def parse(value: JsonValue, settings: Settings) -> CheckRequest:
    """`{"model": str, "messages": [...], "tools"?: [...], "guardrails"?: {...}, ...}`. Raises `BodyError`."""
    body = require_object(value)
    messages = require_objects(body.get("messages"), "messages")
    chat = {"messages": messages, "tools": body.get("tools"), "model": body.get("model")}
    return CheckRequest(chat_input(settings, chat, _context(body)), *trailing_answer(messages))


def _context(body: dict[str, JsonValue]) -> list[Segment]:
    """What an application adds to the conversation beside the messages."""
    guardrails = body.get("guardrails")
    options = require_object({} if guardrails is None else guardrails, "'guardrails'")
    additions: JsonValue = {name: options.get(name) for name in ("context", "state")}
    return [Segment(text, Source.UNTRUSTED, f"guardrails.{path}") for text, path in leaves(additions)]


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: CheckRequest
) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    outcome = await endpoint.scan(request, api_request.scan_input)
    answer = await endpoint.scan_response(request, api_request.answer, api_request.prompt)
    blocking = [each.verdict for each in (outcome, answer) if each.blocked]
    body = {"status": _status(blocked=bool(blocking)), "rails_status": _rails(blocking)}
    return body, scan_headers(request[DECISION_ID], joined_names(outcome.unscanned, answer.unscanned))


def _rails(blocking: list[Verdict]) -> dict[str, object]:
    threats = {label for verdict in blocking for label in verdict.threats}
    return {str(label): {"status": _status(blocked=label in threats)} for label in Label}


def _status(*, blocked: bool) -> str:
    return "blocked" if blocked else "success"


def error(request_error: RequestError) -> web.Response:
    """An error: `{"detail": ...}`, as of the framework that NeMo's services use."""
    return detail_response(request_error)
