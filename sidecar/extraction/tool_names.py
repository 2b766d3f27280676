"""Names the tools whose results a request holds, by the path of each result.

A result names only the id of its call; the call before it names the tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sidecar.extraction.json_body import JsonValue

LISTS = ("messages", "input", "contents")
_RESULTS = ("functionResponse", "function_response", "toolResult")
_CALLS = ("toolUse",)


def tool_names(document: JsonValue) -> dict[str, str]:
    """Tool by path, such as `messages.3` or `messages.3.content.0`; a result whose call is missing has none."""
    names: dict[str, str] = {}
    found: dict[str, str] = {}
    for path, item in _items(document):
        names.update(_calls(item))
        if inner := _member(item, _RESULTS):
            if name := names.get(_text(inner, "toolUseId")) or _text(inner, "name"):
                found[path] = name
            continue
        answered = _text(item, "tool_call_id") or _text(item, "call_id") or _text(item, "tool_use_id")
        if _is_result(item) and (name := names.get(answered) or _text(item, "name")):
            found[path] = name
    return found


def _items(document: JsonValue) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every turn, and every part of one, in order."""
    if not isinstance(document, dict):
        return
    for field in LISTS:
        for path, item in _objects(document.get(field), field):
            yield path, item
            for parts in ("content", "parts"):
                yield from _objects(item.get(parts), f"{path}.{parts}")


def _objects(value: JsonValue, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, list):
        yield from ((f"{path}.{number}", item) for number, item in enumerate(value) if isinstance(item, dict))


def _calls(item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for _, call in _objects(item.get("tool_calls"), ""):
        function = call.get("function")
        yield _text(call, "id"), _text(function if isinstance(function, dict) else call, "name")
    if use := _member(item, _CALLS):
        yield _text(use, "toolUseId"), _text(use, "name")
    if _text(item, "type").endswith(("_call", "tool_use")):
        yield _text(item, "call_id") or _text(item, "id"), _text(item, "name")


def _member(item: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """The first of these members that is an object."""
    return next((item[name] for name in names if isinstance(item.get(name), dict)), None)


def _is_result(item: dict[str, Any]) -> bool:
    is_role = _text(item, "role") in {"tool", "function"}
    return is_role or _text(item, "type").endswith(("call_output", "tool_result"))


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""
