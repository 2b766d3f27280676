"""OpenAI's `POST /v1/moderations`, answered here and not by the upstream.

Shapes as in openai-python 3.54.0 (`types/moderation.py`, `types/moderation_create_params.py`). Each text of `input` has
a result of its own; a list of parts is one text. OpenAI's categories are there, since clients read them, and are always
false: no layer here looks for them. Ours stand beside them under the names of the threat labels.
"""

from __future__ import annotations

from aiohttp import web

from sidecar.api.compat.texts import Question, chat, obj, scores
from sidecar.api.service import Desk, Ruling
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError
from sidecar.extraction.json_body import JsonValue
from sidecar.server.middleware import new_decision_id
from sidecar.server.responses import DECISION_ID, error_response
from sidecar.types import ScanRequest, Segment

PATH = "/v1/moderations"
MOST = 100
_THEIRS = """
    harassment harassment/threatening hate hate/threatening illicit illicit/violent self-harm self-harm/instructions
    self-harm/intent sexual sexual/minors violence violence/graphic
"""
THEIRS = tuple(_THEIRS.split())


def parse(value: JsonValue, settings: Settings) -> list[Question]:
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
        return [Question(ScanRequest((Segment(str(text), path=place),), model=name)) for text, place in pairs]
    if all(isinstance(part, dict) for part in texts):
        parts: list[JsonValue] = [part for part in texts if not isinstance(part, str)]
        return [chat(settings, {"messages": [{"role": "user", "content": parts}], "model": name})]
    raise BodyError("malformed", "'input' must hold texts alone, or parts alone.", param="input")


async def answer(desk: Desk, request: web.Request, questions: list[Question]) -> tuple[object, dict[str, str]]:
    """The body and the headers of the answer."""
    rulings = []
    for question in questions:
        request[DECISION_ID] = new_decision_id()
        rulings.append(await desk.judge(request, question.wanted, unread=question.unread))
    body = {
        "id": f"modr-{rulings[-1].decision.removeprefix('dec_')}",
        "model": questions[0].wanted.model or "prompt-sidecar",
        "results": [_result(ruling) for ruling in rulings],
    }
    return body, rulings[-1].headers


def _result(ruling: Ruling) -> dict[str, object]:
    ours = {str(label): score for label, score in scores(ruling.verdict).items()}
    return {
        "flagged": ruling.blocked,
        "categories": dict.fromkeys(THEIRS, False) | {name: name in ruling.verdict.threats for name in ours},
        "category_scores": dict.fromkeys(THEIRS, 0.0) | ours,
        "category_applied_input_types": {name: [] for name in THEIRS} | {name: ["text"] for name in ours},
    }


def error(failed: RequestError) -> web.Response:
    """An error as OpenAI's clients read it."""
    return error_response(failed, "openai")
