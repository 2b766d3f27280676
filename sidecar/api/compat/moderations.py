"""OpenAI's `POST /v1/moderations`, answered here and not by the upstream.

Shapes as in openai-python 3.54.0 (`types/moderation.py`, `types/moderation_create_params.py`). Each text of `input` has
its own result; a list of parts is one text. OpenAI's categories are included for clients, but always false:
no layer detects them. Our categories are added under the names of the threat labels.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.api.compat.texts import chat_input, require_object, scores
from sidecar.api.endpoint import ScanEndpoint
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.json_body import JsonValue
from sidecar.scan.selection import ScanInput
from sidecar.scan.service import ScanOutcome
from sidecar.server.middleware import new_decision_id
from sidecar.server.responses import DECISION_ID, error_response, scan_headers
from sidecar.types import ScanRequest, Segment

PATH = "/v1/moderations"
MAX_TEXTS = 100
_OPENAI_CATEGORIES = """
    harassment harassment/threatening hate hate/threatening illicit illicit/violent self-harm self-harm/instructions
    self-harm/intent sexual sexual/minors violence violence/graphic
"""
OPENAI_CATEGORIES = tuple(_OPENAI_CATEGORIES.split())


def parse(value: JsonValue, settings: Settings) -> list[ScanInput]:
    """One scan input per result. Raises `BodyError`."""
    body = require_object(value)
    content, model = body.get("input"), body.get("model")
    name = model if isinstance(model, str) else None
    texts = [content] if isinstance(content, str) else content
    if not isinstance(texts, list) or not 1 <= len(texts) <= MAX_TEXTS:
        raise BodyError("malformed", f"'input' must be a text, or a list of 1 to {MAX_TEXTS}.", param="input")
    if all(isinstance(text, str) for text in texts):
        places = ["input"] if isinstance(content, str) else [f"input.{number}" for number in range(len(texts))]
        pairs = zip(texts, places, strict=True)
        return [ScanInput(ScanRequest((Segment(str(text), path=place),), model=name)) for text, place in pairs]
    if all(isinstance(part, dict) for part in texts):
        parts: list[JsonValue] = [part for part in texts if not isinstance(part, str)]
        return [chat_input(settings, {"messages": [{"role": "user", "content": parts}], "model": name})]
    raise BodyError("malformed", "'input' must hold texts alone, or parts alone.", param="input")


async def respond(
    endpoint: ScanEndpoint, request: web.Request, scan_inputs: list[ScanInput]
) -> tuple[object, dict[str, str]]:
    """The body and headers of the response."""
    outcomes = []
    for scan_input in scan_inputs:
        request[DECISION_ID] = new_decision_id()
        outcomes.append(await endpoint.scan(request, scan_input))
    body = {
        "id": f"modr-{request[DECISION_ID].removeprefix('dec_')}",
        "model": scan_inputs[0].request.model or "prompt-sidecar",
        "results": [_result(outcome) for outcome in outcomes],
    }
    return body, scan_headers(request[DECISION_ID], outcomes[-1].unscanned)


def _result(outcome: ScanOutcome) -> dict[str, object]:
    label_scores = {str(label): score for label, score in scores(outcome.verdict).items()}
    return {
        "flagged": outcome.blocked,
        "categories": dict.fromkeys(OPENAI_CATEGORIES, False)
        | {name: name in outcome.verdict.threats for name in label_scores},
        "category_scores": dict.fromkeys(OPENAI_CATEGORIES, 0.0) | label_scores,
        "category_applied_input_types": {name: [] for name in OPENAI_CATEGORIES}
        | {name: ["text"] for name in label_scores},
    }


def error(request_error: RequestError) -> web.Response:
    """An error as OpenAI's clients read it."""
    return error_response(request_error, "openai")
