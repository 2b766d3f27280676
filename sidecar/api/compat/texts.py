"""What a foreign body says: chat messages to a scan request, and scores to the names that others use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidecar.config import Settings
from sidecar.errors import BodyError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.scan.selection import ScanInput, select
from sidecar.types import Label, Segment, Source, Verdict

ATTACKS = (Label.PROMPT_INJECTION, Label.JAILBREAK, Label.SYSTEM_PROMPT_EXTRACTION)


def chat(settings: Settings, body: dict[str, JsonValue], more: Iterable[Segment] = ()) -> ScanInput:
    """The body of a chat completion, or the part of one; `more` stands beside it.

    It is read as by the inline proxy (`sidecar.scan.selection`), and so are parts that no layer reads
    (`failure.input`): raises `BodyError` where that is `block`.
    """
    extraction = extract(body, "/chat/completions", "openai")
    chosen = select(settings, extraction, more)
    return ScanInput(chosen.request, (*_unscanned(settings, extraction), *chosen.unscanned))


def _unscanned(settings: Settings, found: Extraction) -> list[str]:
    kinds = list(dict.fromkeys(part.kind for part in found.unscannable))
    for kind in kinds:
        refuse_if_closed(settings, kind)
    return [str(kind) for kind in kinds]


def refuse_if_closed(settings: Settings, kind: str) -> None:
    """Raise `BodyError` if the policy does not let that kind of unreadable content pass."""
    if getattr(settings.failure.input, kind) == "block":
        raise BodyError(kind, f"The body holds what cannot be scanned (failure.input.{kind}).", status=422)


def scores(verdict: Verdict) -> dict[Label, float]:
    """For each label the highest score of what decides; a label without findings has the risk score, or 0."""
    best = dict.fromkeys(Label, 0.0)
    for finding in verdict.findings:
        if finding.decides:
            best[finding.label] = max(best[finding.label], round(finding.score, 4))
    return {label: score or (verdict.risk_score if label in verdict.threats else 0.0) for label, score in best.items()}


def obj(value: JsonValue, name: str = "The body") -> dict[str, JsonValue]:
    """An object. Raises `BodyError`."""
    if isinstance(value, dict):
        return value
    raise BodyError("malformed", f"{name} must be a JSON object.")


def objects(value: JsonValue, name: str, *, optional: bool = False) -> list[JsonValue]:
    """A list of objects; null is an empty one where it is `optional`. Raises `BodyError`."""
    if optional and value is None:
        return []
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise BodyError("malformed", f"'{name}' must be a list of objects.", param=name)


def strings(value: JsonValue, name: str) -> list[str]:
    """A list of strings; null is an empty one. Raises `BodyError`."""
    found = [] if value is None else value
    if isinstance(found, list) and all(isinstance(item, str) for item in found):
        return [str(item) for item in found]
    raise BodyError("malformed", f"'{name}' must be a list of strings.", param=name)


def said(texts: Sequence[str], name: str) -> list[Segment]:
    """Texts that a user said, by their places."""
    return [Segment(text, Source.USER, f"{name}.{number}") for number, text in enumerate(texts)]
