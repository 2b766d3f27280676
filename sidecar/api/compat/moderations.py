"""OpenAI's `POST /v1/moderations`, answered here and not by the upstream.

Shapes as in openai-python 3.54.0 (`types/moderation.py`, `types/moderation_create_params.py`). Each text of `input` has
a result of its own; a list of parts is one text. OpenAI's categories are there, since clients read them, and are always
false: no layer here looks for them. Ours stand beside them under the names of the threat labels.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.api.compat.texts import chat, obj, scores
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
MOST = 100
_THEIRS = """
    harassment harassment/threatening hate hate/threatening illicit illicit/violent self-harm self-harm/instructions
    self-harm/intent sexual sexual/minors violence violence/graphic
"""
THEIRS = tuple(_THEIRS.split())


def parse(value: JsonValue, settings: Settings) -> list[ScanInput]:
    """A question for each result that is wanted. Raises `BodyError`."""
    body = obj(value)
    given, model = body.get("input"), body.get("model")
    name = model if isinstance(model, str) else None
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST:
        raise BodyError("malformed", f"'input' must be a text, or a list of 1 to {MOST}.", param="input")
    if all(isinstance(text, str) for text in texts):
        places = ["input"] if isinstance(given, str) else [f"input.{number}" for number in range(len(texts))]
        pairs = zip(texts, places, strict=True)
        return [ScanInput(ScanRequest((Segment(str(text), path=place),), model=name)) for text, place in pairs]
    if all(isinstance(part, dict) for part in texts):
        parts: list[JsonValue] = [part for part in texts if not isinstance(part, str)]
        return [chat(settings, {"messages": [{"role": "user", "content": parts}], "model": name})]
    raise BodyError("malformed", "'input' must hold texts alone, or parts alone.", param="input")


async def answer(
    endpoint: ScanEndpoint, request: web.Request, questions: list[ScanInput]
) -> tuple[object, dict[str, str]]:
    """The body and the headers of the answer."""
    outcomes = []
    for question in questions:
        request[DECISION_ID] = new_decision_id()
        outcomes.append(await endpoint.scan(request, question))
    body = {
        "id": f"modr-{request[DECISION_ID].removeprefix('dec_')}",
        "model": questions[0].request.model or "prompt-sidecar",
        "results": [_result(outcome) for outcome in outcomes],
    }
    return body, scan_headers(request[DECISION_ID], outcomes[-1].unscanned)


def _result(outcome: ScanOutcome) -> dict[str, object]:
    ours = {str(label): score for label, score in scores(outcome.verdict).items()}
    return {
        "flagged": outcome.blocked,
        "categories": dict.fromkeys(THEIRS, False) | {name: name in outcome.verdict.threats for name in ours},
        "category_scores": dict.fromkeys(THEIRS, 0.0) | ours,
        "category_applied_input_types": {name: [] for name in THEIRS} | {name: ["text"] for name in ours},
    }


def error(failed: RequestError) -> web.Response:
    """An error as OpenAI's clients read it."""
    return error_response(failed, "openai")
