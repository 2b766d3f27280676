"""Explains a refusal in one actionable sentence: the place, what it looks like, and the decision id.

Many clients show only the message of an error. So it names the place in plain words (the result of which
tool, the definition of which tool, whose message), and quotes nothing of the prompt except tool names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sidecar.extraction.json_body import JsonValue
from sidecar.types import Label, Verdict

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_WRAPPED_RESULTS = ("functionResponse", "function_response", "toolResult")
_TURNS = {"user": "a message of the user", "system": "the system prompt", "developer": "the system prompt"}
_DESCRIPTIONS = {
    Label.PROMPT_INJECTION: "looks like an order to the assistant",
    Label.JAILBREAK: "looks like an attempt to get the model past its rules",
    Label.SYSTEM_PROMPT_EXTRACTION: "looks like an attempt to get at the system prompt",
    Label.TOKEN_SMUGGLING: "hides text in a way that attacks do",
    Label.PII_DETECTED: "holds personal data or secrets",
}


def refusal_message(
    message: str, verdict: Verdict, decision: str, document: JsonValue = None, place: str | None = None
) -> str:
    """Extend `message` (`block.message`) by the place, the reason and the decision id.

    `document`: the refused body, if it was JSON, for looking up tool names. `place`: in words, if it is known.
    """
    place = place or describe_path(verdict.path, document)
    return f"{message.rstrip('. ')}: {place} {_DESCRIPTIONS[_label(verdict)]}; decision {decision}."


def describe_path(path: str | None, document: JsonValue = None) -> str:
    """Describe a segment's path in words, followed by the path itself."""
    if path is None:
        return "the prompt"
    field, item, *_ = [*path.split("."), ""]
    body = document if isinstance(document, dict) else {}
    items = body.get(field)
    entry = items[int(item)] if isinstance(items, list) and item.isdigit() and int(item) < len(items) else None
    words = "the request"
    if field in {"tools", "functions"}:
        words = f"the definition of tool{_quoted(_tool_name(entry))}"
    elif field == "toolConfig":
        words = "the definition of a tool"
    elif field == "documents":
        words = "a document"
    elif field in {"messages", "input", "contents"}:
        words = _turn(path, entry, items) if item else _whole_input(items)
    elif field in {"system", "instructions", "systemInstruction", "system_instruction"}:
        words = "the system prompt"
    elif field in {"prompt", "query"}:
        return f"the {field}"
    return f"{words} ({path})"


def _whole_input(items: JsonValue) -> str:
    """Describe a single input, or turns scanned as joined text."""
    return "the conversation as a whole" if isinstance(items, list) else "a message of the user"


def _turn(path: str, entry: JsonValue, items: JsonValue) -> str:
    """Describe a turn by its role, or the tool whose result it is."""
    if not isinstance(entry, dict):
        return "the request"
    block = _block(path, entry)
    if (inner := next(_wrapped(block, *_WRAPPED_RESULTS), None)) is not None:
        return f"the result of tool{_quoted(inner.get('name') or _called_tool(items, str(inner.get('toolUseId'))))}"
    call = entry.get("tool_call_id") or entry.get("call_id") or block.get("tool_use_id")
    result = entry.get("role") in {"tool", "function"} or str(entry.get("type", "")).endswith("_output")
    if result or block.get("type") == "tool_result":
        name = entry.get("name") or (_called_tool(items, call) if isinstance(call, str) else None)
        return f"the result of tool{_quoted(name)}"
    role = entry.get("role")
    return _TURNS.get(role, "a turn of the conversation") if isinstance(role, str) else "a turn of the conversation"


def _block(path: str, entry: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The content block of a turn that a path refers to."""
    parts = path.split(".")
    content = entry.get(parts[2]) if len(parts) > 2 else None
    if len(parts) > 3 and parts[2] in {"content", "parts"} and parts[3].isdigit() and isinstance(content, list):
        block = content[int(parts[3])] if int(parts[3]) < len(content) else None
        return block if isinstance(block, dict) else {}
    return {}


def _called_tool(items: JsonValue, call: str) -> JsonValue:
    """The name of the tool called with this id, in any dialect."""
    for entry in items if isinstance(items, list) else ():
        if not isinstance(entry, dict):
            continue
        nested = [entry, *_objects(entry.get("tool_calls")), *_objects(entry.get("content"))]
        for part in nested:
            use = next(_wrapped(part, "toolUse"), part)
            if call in (use.get("id"), use.get("call_id"), use.get("toolUseId")) and (name := _tool_name(use)):
                return name
    return None


def _wrapped(part: dict[str, JsonValue], *names: str) -> Iterator[dict[str, JsonValue]]:
    return (value for name in names if isinstance(value := part.get(name), dict))


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _tool_name(entry: JsonValue) -> JsonValue:
    if not isinstance(entry, dict):
        return None
    inner = entry.get("function") or entry.get("toolSpec")
    return entry.get("name") or (inner.get("name") if isinstance(inner, dict) else None)


def _quoted(name: JsonValue) -> str:
    """The name in backticks; empty if it does not have the form of a name."""
    return f" `{name}`" if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _label(verdict: Verdict) -> Label:
    """The label of the strongest finding at the path of the verdict."""
    candidates = [f for f in verdict.findings if f.decides and f.path == verdict.path]
    if candidates:
        return max(candidates, key=lambda finding: finding.score).label
    return verdict.threats[0] if verdict.threats else Label.PROMPT_INJECTION
