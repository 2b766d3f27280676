"""What a model was given before it answered, by author: the user, the application, and third parties.

Reads the body of a request of any of the APIs. What the model itself said before is no source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sidecar.extraction import retrieved_passages
from sidecar.util import json

Json = Any
_THIRD_PARTY = frozenset({"document", "file", "input_file"})
"""Types of parts beside `..._result`."""
_WRAPPED_RESULTS = {
    "functionResponse": "response",
    "function_response": "response",
    "toolResponse": "response",
    "tool_response": "response",
    "codeExecutionResult": "output",
    "code_execution_result": "output",
    "toolResult": "content",
    "searchResult": "content",
    "document": "source",
}
"""Members of a part that hold what third parties wrote, and the field of it that holds the text."""
_WRAPPED_CALLS = {"functionCall": "args", "function_call": "args", "toolUse": "input"}
"""Members of a part that hold a call, and the field with its arguments."""
_SETTINGS = frozenset({"id", "type", "status", "role", "call_id", "tool_use_id", "tool_call_id", "cache_control"})
MAX_CHARACTERS = 512 * 1024
"""Characters of results that are kept, the last ones."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A definition of a tool."""

    name: str
    description: str = ""
    parameters: Json = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model made. `arguments`: an object, or a text where they are none or cannot be parsed."""

    name: str
    arguments: Json = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A text of third parties. `path`: of the turn, part or field that holds it."""

    text: str
    path: str


@dataclass(slots=True)
class Conversation:
    """The texts of a request by author, and its tools by name."""

    user: list[str] = field(default_factory=list)
    application: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Json) -> Conversation:
        """The conversation in the body of a request; an empty one for what is not an object."""
        conversation = cls()
        if isinstance(document, dict):
            conversation.tools = {tool.name: tool for tool in _tools(document.get("tools"))}
            conversation.tools |= {tool.name: tool for tool in _tools(document.get("functions"))}
            if isinstance(config := document.get("toolConfig"), dict):
                conversation.tools |= {tool.name: tool for tool in _tools(config.get("tools"))}
            for name in ("system", "instructions", "systemInstruction", "system_instruction"):
                conversation._add_application(document.get(name), name)
            for number, text in enumerate(_items(document.get("documents"))):
                conversation._add_result(text, f"documents.{number}")
            for name in ("messages", "input"):
                conversation._add_turns(document.get(name), name)
            conversation._add_turns(_items(document.get("contents")), "contents")
        return conversation

    def _add_turns(self, turns: Json, path: str) -> None:
        if isinstance(turns, str):
            self.user.append(turns)
        for number, turn in enumerate(turns if isinstance(turns, list) else ()):
            if isinstance(turn, dict):
                self._add_turn(turn, f"{path}.{number}")

    def _add_turn(self, turn: dict[str, Json], path: str) -> None:
        kind, role = _word(turn.get("type")) or "message", _word(turn.get("role"))
        if role in {"system", "developer"}:
            self._add_application(turn.get("content"), path)
        elif role in {"tool", "function"} or kind.endswith("_output"):
            self._add_result(turn.get("output", turn.get("content")), path)
        elif role in {"assistant", "model"} or kind.endswith("_call") or kind == "reasoning":
            self._add_parts(turn, path, [])
            self._add_calls(turn, path)
            self._add_result(turn.get("output"), path)
        else:
            self._add_parts(turn, path, self.user)

    def _add_parts(self, turn: dict[str, Json], path: str, author: list[str]) -> None:
        """The parts of a turn: text of its author, added to `author`, and what third parties wrote."""
        if isinstance(content := turn.get("content"), str):
            author.append(content)
        field_name = "parts" if "parts" in turn else "content"
        for number, part in enumerate(_items(turn.get(field_name))):
            place = f"{path}.{field_name}.{number}"
            if not isinstance(part, dict):
                author += [part] if isinstance(part, str) else []
            elif wrapped := next((name for name in _WRAPPED_RESULTS if isinstance(part.get(name), dict)), None):
                self._add_result(part[wrapped].get(_WRAPPED_RESULTS[wrapped], part[wrapped]), place)
            elif (kind := _word(part.get("type"))) in _THIRD_PARTY or kind.endswith("_result"):
                self._add_result(part.get("content", part), place)
            elif isinstance(text := part.get("text"), str):
                author.append(text)

    def _add_application(self, content: Json, path: str) -> None:
        """Text of the application; passages that it retrieved are third parties'."""
        for text in map(json.encodable, strings(content)):
            passages = retrieved_passages.passages(text)
            for passage in passages:
                text = text.replace(passage, "\n")  # noqa: PLW2901 - the rest is what the application says itself
                self.results.append(Result(passage, path))
            self.application.append(text)

    def _add_calls(self, turn: dict[str, Json], path: str) -> None:
        """What the model chose before any third party spoke comes from user and application."""
        if not self.results:
            for call in calls_of(turn, path):
                self.application += map(json.encodable, strings(call.arguments))

    def _add_result(self, content: Json, path: str) -> None:
        text = content if isinstance(content, str) else "\n".join(strings(content))
        if text:
            self.results.append(Result(text[-MAX_CHARACTERS:], path))


def strings(value: Json) -> Iterator[str]:
    """The texts in a value, without ids and types."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack += reversed(item)
        elif isinstance(item, dict):
            stack += [child for name, child in reversed(item.items()) if name not in _SETTINGS]


def calls_of(item: Json, path: str) -> Iterator[ToolCall]:
    """The tool calls in a turn or an output item, of any of the APIs."""
    if not isinstance(item, dict):
        return
    for number, call in enumerate(objects(item.get("tool_calls"))):
        inner = call.get("function") or call.get("custom")
        if isinstance(inner, dict):
            arguments = inner.get("arguments", inner.get("input"))
            yield parsed_call(inner.get("name"), arguments, f"{path}.tool_calls.{number}")
    if isinstance(legacy := item.get("function_call"), dict):
        yield parsed_call(legacy.get("name"), legacy.get("arguments"), f"{path}.function_call")
    kind = _word(item.get("type"))
    if kind.endswith(("_call", "tool_use")):
        arguments = item.get("arguments", item.get("input", item.get("action")))
        yield parsed_call(item.get("name") or kind, arguments, path)
    for field_name in ("content", "parts"):
        for number, part in enumerate(objects(_items(item.get(field_name)))):
            yield from _part_calls(part, f"{path}.{field_name}.{number}")


def _part_calls(part: dict[str, Json], path: str) -> Iterator[ToolCall]:
    if _word(part.get("type")).endswith("tool_use"):
        yield parsed_call(part.get("name"), part.get("input"), path)
    for name, arguments in _WRAPPED_CALLS.items():
        if isinstance(call := part.get(name), dict) and isinstance(call.get("name"), str):
            yield parsed_call(call["name"], call.get(arguments), path)


def parsed_call(name: Json, arguments: Json, path: str) -> ToolCall:
    """A call whose arguments may be a JSON text."""
    return ToolCall(_word(name), json.embedded(arguments) if isinstance(arguments, str) else arguments, path)


def _word(value: Json) -> str:
    """A value of the API that is a text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def _items(value: Json) -> list[Json]:
    """The items of a list, which Google's API takes without its brackets if it has one; none of an absent one."""
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def objects(value: Json) -> list[dict[str, Json]]:
    """The objects in a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _tools(value: Json) -> Iterator[Tool]:
    for item in objects(_items(value)):
        for spelling in ("functionDeclarations", "function_declarations"):
            yield from _tools(item.get(spelling))
        inner = next((item[key] for key in ("function", "toolSpec") if isinstance(item.get(key), dict)), item)
        if isinstance(inner, dict) and isinstance(name := inner.get("name"), str):
            description = inner.get("description")
            schema = inner.get("parameters", inner.get("input_schema", inner.get("inputSchema")))
            yield Tool(name, description if isinstance(description, str) else "", schema)
