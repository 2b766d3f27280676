"""Bodies of the scan API: one prompt, a chat, a batch. Unknown fields are ignored, `null` means omitted.

Every error is a `BodyError` of kind `malformed` whose `detail` names the field and whose `param` is its path.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.errors import BodyError
from sidecar.extraction import joining, packing
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.walker import Location, leaves
from sidecar.types import ScanRequest

MAX_PROMPTS = 100


def parse_scan(document: JsonValue) -> ScanRequest:
    """`{"prompt": str, "system_prompt"?: str, "model"?: str}`."""
    return _scan(_object(document, ""), "")


def parse_batch(document: JsonValue) -> list[ScanRequest]:
    """A list of 1 to 100 scan requests."""
    if not isinstance(document, list):
        raise _malformed("", 'The body must be a list of scan requests: [{"prompt": "..."}, ...].')
    if not 1 <= len(document) <= MAX_PROMPTS:
        raise _malformed("", f"The list must hold 1 to {MAX_PROMPTS} scan requests.")
    return [_scan(_object(item, str(index)), f"{index}.") for index, item in enumerate(document)]


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat to scan: its part that is a chat completions body, and the separate system prompt."""

    body: dict[str, JsonValue]
    system_prompt: str | None


def parse_chat(document: JsonValue) -> Chat:
    """`{"messages": [...], "tools"?: [...], "system_prompt"?: str, "model"?: str}`: as in a chat completion.

    The system messages serve as system prompt unless one is given.
    """
    body = _object(document, "")
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise _malformed("messages", "The field 'messages' is required and must be a list of objects.")
    chat_body: dict[str, JsonValue] = {"messages": messages, "model": _optional(body, "model", "")}
    if isinstance(body.get("tools"), list):
        chat_body["tools"] = body["tools"]
    return Chat(chat_body, _optional(body, "system_prompt", ""))


def _scan(body: dict[str, JsonValue], prefix: str) -> ScanRequest:
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise _malformed(f"{prefix}prompt", f"The field '{prefix}prompt' is required and must be a string.")
    location = Location(f"{prefix}prompt", turn=f"{prefix}prompt")
    prompt_leaves = leaves(prompt, location, prose=True)
    return ScanRequest(
        segments=(*packing.segments(prompt_leaves), *joining.join(prompt_leaves)),
        system_prompt=_optional(body, "system_prompt", prefix),
        model=_optional(body, "model", prefix),
    )


def _object(value: JsonValue, path: str) -> dict[str, JsonValue]:
    if isinstance(value, dict):
        return value
    raise _malformed(
        path,
        f'Item {path} of the list must be an object: {{"prompt": "..."}}.'
        if path
        else "The body must be a JSON object.",
    )


def _optional(body: dict[str, JsonValue], name: str, prefix: str) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _malformed(f"{prefix}{name}", f"The field '{prefix}{name}' must be a string, null or absent.")


def _malformed(param: str, detail: str) -> BodyError:
    return BodyError("malformed", detail, param=param or None)
