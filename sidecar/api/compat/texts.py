"""Helpers of the adapters: bodies to scan inputs, scores by label, and validation of JSON bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sidecar.config import Settings
from sidecar.errors import BodyError
from sidecar.extraction.extraction import Extraction, extract
from sidecar.extraction.json_body import JsonValue
from sidecar.response_scan.detector import Text
from sidecar.scan.known_values import KnownValues, application_values
from sidecar.scan.selection import ScanInput, select
from sidecar.types import Label, Segment, Source, Verdict

ATTACKS = (Label.PROMPT_INJECTION, Label.JAILBREAK, Label.SYSTEM_PROMPT_EXTRACTION)
CHAT = "/chat/completions"
NO_PROMPT = Extraction()


def chat_input(settings: Settings, body: dict[str, JsonValue], additional: Iterable[Segment] = ()) -> ScanInput:
    """The scan input of a chat completion body, or a part of one, plus `additional` segments."""
    return body_input(settings, body, CHAT, "openai", additional)


def body_input(
    settings: Settings,
    body: dict[str, JsonValue],
    operation: str,
    dialect: str,
    additional: Iterable[Segment] = (),
) -> ScanInput:
    """The scan input of the body of an operation, plus `additional` segments.

    It is read as by the inline proxy (`sidecar.scan.selection`). Raises `BodyError` for unscannable parts that
    `failure.input` blocks.
    """
    extraction = extract(body, operation, dialect)
    scan_input = select(settings, extraction, additional, body)
    return ScanInput(scan_input.request, (*_unscanned(settings, extraction), *scan_input.unscanned))


def trailing_answer(messages: Sequence[JsonValue]) -> tuple[tuple[Text, ...], Extraction]:
    """The texts of the messages of the assistant at the end of a chat, and the conversation before them."""
    start = len(messages)
    while start and require_object(messages[start - 1]).get("role") == "assistant":
        start -= 1
    if start == len(messages):
        return (), NO_PROMPT
    texts: list[Text] = []
    for number, message in enumerate(messages[start:], start):
        segments = extract({"messages": [message]}, CHAT, "openai").segments
        texts += [(part.text, f"messages.{number}.{part.path.removeprefix('messages.0.')}") for part in segments]
    return tuple(texts), extract({"messages": list(messages[:start])}, CHAT, "openai")


def leaves(value: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    """All strings of a value, each with its path."""
    if isinstance(value, str):
        yield value, path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield from leaves(child, f"{path}.{name}" if path else str(name))


def chat_application_values(messages: JsonValue) -> KnownValues:
    """What the application's messages of a chat hold; nothing if it is not a list of messages."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return KnownValues()
    return application_values(extract({"messages": messages}, CHAT, "openai").segments)


def _unscanned(settings: Settings, extraction: Extraction) -> list[str]:
    kinds = unscannable_kinds(extraction)
    for kind in kinds:
        refuse_if_blocked(settings, kind)
    return kinds


def unscannable_kinds(extraction: Extraction) -> list[str]:
    """The kinds of parts that no layer reads."""
    return list(dict.fromkeys(str(part.kind) for part in extraction.unscannable))


def refuse_if_blocked(settings: Settings, kind: str) -> None:
    """Raise `BodyError` if the policy blocks this kind of unscannable content."""
    if getattr(settings.failure.input, kind) == "block":
        raise BodyError(kind, f"The body holds what cannot be scanned (failure.input.{kind}).", status=422)


def scores(verdict: Verdict) -> dict[Label, float]:
    """The highest deciding score of each label; a threat without findings has the risk score, others 0."""
    highest = dict.fromkeys(Label, 0.0)
    for finding in verdict.findings:
        if finding.decides:
            highest[finding.label] = max(highest[finding.label], round(finding.score, 4))
    return {
        label: score or (verdict.risk_score if label in verdict.threats else 0.0) for label, score in highest.items()
    }


def require_object(value: JsonValue, name: str = "The body") -> dict[str, JsonValue]:
    """An object. Raises `BodyError`."""
    if isinstance(value, dict):
        return value
    raise BodyError("malformed", f"{name} must be a JSON object.")


def require_objects(value: JsonValue, name: str, *, optional: bool = False) -> list[JsonValue]:
    """A list of objects; null is an empty one where it is `optional`. Raises `BodyError`."""
    if optional and value is None:
        return []
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise BodyError("malformed", f"'{name}' must be a list of objects.", param=name)


def require_strings(value: JsonValue, name: str) -> list[str]:
    """A list of strings; null is an empty one. Raises `BodyError`."""
    items = [] if value is None else value
    if isinstance(items, list) and all(isinstance(item, str) for item in items):
        return [str(item) for item in items]
    raise BodyError("malformed", f"'{name}' must be a list of strings.", param=name)


def user_segments(texts: Sequence[str], name: str) -> list[Segment]:
    """User segments for these texts, with paths `name.number`."""
    return [Segment(text, Source.USER, f"{name}.{number}") for number, text in enumerate(texts)]
