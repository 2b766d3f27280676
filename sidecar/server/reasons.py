"""Why a prompt was refused, in one sentence that people can act on: where, what it looks like, and the decision's id.

Many clients show nothing but the message of an error. So it names the place in plain words (the result
of which tool, the definition of which tool, whose message), and never a word of the prompt but names of tools.
"""

from __future__ import annotations

import re

from sidecar.extraction.json_body import JsonValue
from sidecar.types import Label, Verdict

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_TURNS = {"user": "a message of the user", "system": "the system prompt", "developer": "the system prompt"}
_LOOKS = {
    Label.PROMPT_INJECTION: "looks like an order to the assistant",
    Label.JAILBREAK: "looks like an attempt to get the model past its rules",
    Label.SYSTEM_PROMPT_EXTRACTION: "looks like an attempt to get at the system prompt",
    Label.TOKEN_SMUGGLING: "hides text in a way that attacks do",
    Label.PII_DETECTED: "holds personal data or secrets",
}


def refusal_message(message: str, verdict: Verdict, decision: str, document: JsonValue = None) -> str:
    """`message` (`block.message`) made one sentence with the place, the reason and the decision's id.

    `document`: the refused body, if it was JSON; names of tools are looked up in it.
    """
    place = place_of(verdict.path, document)
    return f"{message.rstrip('. ')}: {place} {_LOOKS[_label(verdict)]}; decision {decision}."


def place_of(path: str | None, document: JsonValue = None) -> str:
    """A path of a segment in words, with the path itself."""
    if path is None:
        return "the prompt"
    field, item, *_ = [*path.split("."), ""]
    body = document if isinstance(document, dict) else {}
    items = body.get(field)
    entry = items[int(item)] if isinstance(items, list) and item.isdigit() and int(item) < len(items) else None
    words = "the request"
    if field in {"tools", "functions"}:
        words = f"the definition of tool{_quoted(_tool_name(entry))}"
    elif field in {"messages", "input"}:
        words = _turn(path, entry, items) if item else _whole(items)
    elif field in {"system", "instructions"}:
        words = "the system prompt"
    elif field in {"prompt", "query"}:
        return f"the {field}"
    return f"{words} ({path})"


def _whole(items: JsonValue) -> str:
    """A single input, or turns that were read in a row."""
    return "the conversation, read in a row," if isinstance(items, list) else "a message of the user"


def _turn(path: str, entry: JsonValue, items: JsonValue) -> str:
    """Whose turn it is, or which tool's result."""
    if not isinstance(entry, dict):
        return "the request"
    call = entry.get("tool_call_id") or entry.get("call_id") or _block(path, entry).get("tool_use_id")
    result = entry.get("role") in {"tool", "function"} or str(entry.get("type", "")).endswith("_output")
    if result or _block(path, entry).get("type") == "tool_result":
        name = entry.get("name") or (_called(items, call) if isinstance(call, str) else None)
        return f"the result of tool{_quoted(name)}"
    role = entry.get("role")
    return _TURNS.get(role, "a turn of the conversation") if isinstance(role, str) else "a turn of the conversation"


def _block(path: str, entry: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The block of a turn's content that a path lies in."""
    parts, content = path.split("."), entry.get("content")
    if len(parts) > 3 and parts[2] == "content" and parts[3].isdigit() and isinstance(content, list):
        block = content[int(parts[3])] if int(parts[3]) < len(content) else None
        return block if isinstance(block, dict) else {}
    return {}


def _called(items: JsonValue, call: str) -> JsonValue:
    """The name of the tool that was called under this id, in any dialect."""
    for entry in items if isinstance(items, list) else ():
        if not isinstance(entry, dict):
            continue
        nested = [entry, *_objects(entry.get("tool_calls")), *_objects(entry.get("content"))]
        for one in nested:
            if call in (one.get("id"), one.get("call_id")) and (name := _tool_name(one)):
                return name
    return None


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _tool_name(entry: JsonValue) -> JsonValue:
    if not isinstance(entry, dict):
        return None
    inner = entry.get("function")
    return entry.get("name") or (inner.get("name") if isinstance(inner, dict) else None)


def _quoted(name: JsonValue) -> str:
    """A name in backticks, if it is one: never a text."""
    return f" `{name}`" if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _label(verdict: Verdict) -> Label:
    """What the strongest finding at the place is about."""
    here = [f for f in verdict.findings if f.decides and f.path == verdict.path]
    if here:
        return max(here, key=lambda finding: finding.score).label
    return verdict.threats[0] if verdict.threats else Label.PROMPT_INJECTION
