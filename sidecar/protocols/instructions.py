"""Adds an instruction of the application to the body of a request, at the place where an API keeps such.

Each function changes the body in place and returns whether the body has room for it: where a place has a form that the
API does not define, nothing is added. What the application already says there stays and comes first.
"""

from __future__ import annotations

from sidecar.protocols.protocol import Json

_ROLES = frozenset({"system", "developer"})
_CACHED = frozenset({"cachedContent", "cached_content"})


def add_to_messages(body: Json, text: str) -> bool:
    """Extend the first message if it is the application's, else put a system message before it."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return False
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") in _ROLES:
        return _extend(first, "content", text)
    messages.insert(0, {"role": "system", "content": text})
    return True


def add_to_instructions(body: Json, text: str) -> bool:
    """Extend `instructions` of OpenAI's responses, or set it."""
    return not isinstance(body.get("instructions"), list) and _extend(body, "instructions", text)


def add_to_system(body: Json, text: str) -> bool:
    """Extend `system` of Anthropic's messages, or set it. Last of all, so that a cached prefix stays the same."""
    return _extend(body, "system", text)


def add_to_system_instruction(body: Json, text: str) -> bool:
    """Extend Gemini's `systemInstruction`, or set it. With cached content the API accepts none."""
    if _CACHED & {name for name, value in body.items() if value}:
        return False
    name = "system_instruction" if "system_instruction" in body else "systemInstruction"
    content = body.get(name) or {}
    if not isinstance(content, dict):
        return False
    parts = content.get("parts", [])
    body[name] = {**content, "parts": [*(parts if isinstance(parts, list) else [parts]), {"text": text}]}
    return True


def _extend(owner: Json, name: str, text: str) -> bool:
    """Append to a text, or to a list of text parts."""
    value = owner.get(name)
    if value is None or value == "":
        owner[name] = text
    elif isinstance(value, str):
        owner[name] = f"{value}\n\n{text}"
    elif isinstance(value, list):
        owner[name] = [*value, {"type": "text", "text": text}]
    return value is None or isinstance(value, (str, list))
