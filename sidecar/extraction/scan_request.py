"""Bodies of the scan door: one prompt, a chat, a batch. Unknown fields are ignored, `null` means omitted.

Every refusal is a `BodyError` of kind `malformed` whose `detail` names the field and whose `param` is its path.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.errors import BodyError
from sidecar.extraction import joining, packing
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.walker import Place, leaves
from sidecar.types import ScanRequest

MOST_PROMPTS = 100


def parse_scan(document: JsonValue) -> ScanRequest:
    """`{"prompt": str, "system_prompt"?: str, "model"?: str}`."""
    return _scan(_object(document, ""), "")


def parse_batch(document: JsonValue) -> list[ScanRequest]:
    """A list of 1 to 100 scan requests."""
    if not isinstance(document, list):
        raise _wrong("", "The body must be a list of scan requests.")
    if not 1 <= len(document) <= MOST_PROMPTS:
        raise _wrong("", f"The list must hold 1 to {MOST_PROMPTS} scan requests.")
    return [_scan(_object(item, str(index)), f"{index}.") for index, item in enumerate(document)]


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat to scan: what of it is a body of chat completions, and the system prompt that is given beside it."""

    body: dict[str, JsonValue]
    system_prompt: str | None


def parse_chat(document: JsonValue) -> Chat:
    """`{"messages": [...], "tools"?: [...], "system_prompt"?: str, "model"?: str}`: as in a chat completion.

    The system messages serve as system prompt unless one is given.
    """
    body = _object(document, "")
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise _wrong("messages", "The field 'messages' is required and must be a list of objects.")
    read: dict[str, JsonValue] = {"messages": messages, "model": _optional(body, "model", "")}
    if isinstance(body.get("tools"), list):
        read["tools"] = body["tools"]
    return Chat(read, _optional(body, "system_prompt", ""))


def _scan(body: dict[str, JsonValue], place: str) -> ScanRequest:
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise _wrong(f"{place}prompt", f"The field '{place}prompt' is required and must be a string.")
    at = Place(f"{place}prompt", turn=f"{place}prompt")
    said = leaves(prompt, at, prose=True)
    return ScanRequest(
        segments=(*packing.segments(said), *joining.join(said)),
        system_prompt=_optional(body, "system_prompt", place),
        model=_optional(body, "model", place),
    )


def _object(value: JsonValue, place: str) -> dict[str, JsonValue]:
    if isinstance(value, dict):
        return value
    raise _wrong(place, f"Item {place} of the list must be an object." if place else "The body must be a JSON object.")


def _optional(body: dict[str, JsonValue], name: str, place: str) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(f"{place}{name}", f"The field '{place}{name}' must be a string, null or absent.")


def _wrong(param: str, said: str) -> BodyError:
    return BodyError("malformed", said, param=param or None)
