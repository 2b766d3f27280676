"""Turns labelled data into the request bodies that clients send.

A conversation is given as `messages` (OpenAI's or Anthropic's, with `tools` and `system` beside them) or as a whole
request under `body`, with its `dialect`. A document is sent as a user's text, or as the result of a tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sidecar.extraction import routes
from sidecar.protocols import RouteKind, protocol_of

Body = Mapping[str, Any]
OPERATIONS = {
    "chat": "/chat/completions",
    "openai": "/chat/completions",
    "responses": "/responses",
    "messages": "/messages",
    "anthropic": "/messages",
    "completions": "/completions",
    "embeddings": "/embeddings",
    "gemini": "/models/{id}:generateContent",
    "converse": "/model/{id}/converse",
    "cohere": "/v2/chat",
}
"""The operation for each `dialect` name; a path such as `/v1/responses` is used as it is."""
MODEL = "gpt-4o-mini"
_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "document"})
_BY_MODEL = frozenset({"function_call", "reasoning", "custom_tool_call", "web_search_call", "file_search_call"})


def operation(value: Mapping[str, Any]) -> str:
    """The operation of a row with `body` or `messages`. Raises `ValueError` for an unknown dialect."""
    dialect_name = value.get("dialect")
    if not dialect_name:
        return _guess(value.get("body") or value)
    if dialect_name in OPERATIONS:
        return OPERATIONS[dialect_name]
    route = (
        routes.classify("POST", str(dialect_name), prefixes=("/v1", "/v1beta", ""))
        if str(dialect_name).startswith("/")
        else None
    )
    if route is None or route.kind is RouteKind.UNKNOWN:
        raise ValueError(f"dialect: one of {', '.join(OPERATIONS)}, or a path, is wanted")
    return route.operation


def dialect(name: str) -> str:
    """The name of the protocol, by the operation."""
    return protocol_of(name).name


def _guess(body: Body) -> str:
    if not isinstance(body.get("messages"), list):
        return "/responses" if "input" in body else "/completions"
    return "/messages" if _is_anthropic(body) else "/chat/completions"


def _is_anthropic(body: Body) -> bool:
    """Decides by features of one API: roles `tool` or `system` are OpenAI's, blocks and `input_schema` Anthropic's."""
    if any(message.get("role") in {"tool", "system", "developer", "function"} for message in body["messages"]):
        return False
    if any("input_schema" in tool for tool in body.get("tools") or ()):
        return True
    contents = [message.get("content") for message in body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return bool(body.get("system")) or any(isinstance(part, dict) and part.get("type") in _BLOCKS for part in parts)


def conversation(value: Mapping[str, Any], name: str) -> Body:
    """The request for a row with `messages`. For OpenAI `system` becomes the first message."""
    messages, system = value["messages"], value.get("system")
    body: dict[str, Any] = {"model": value.get("model") or MODEL}
    if system and dialect(name) == "openai":
        messages = [{"role": "system", "content": system}, *messages]
    elif system:
        body["system"] = system
    if dialect(name) == "anthropic":
        body["max_tokens"] = 1024
    tools = value.get("tools")
    return body | {"messages": messages} | ({"tools": tools} if tools else {})


def document(text: str, *, indirect: bool, system: str | None = None) -> Body:
    """A chat request that contains a text: as a user's turn, or as the result of a tool call."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    if not indirect:
        return {"model": MODEL, "messages": [*messages, {"role": "user", "content": text}]}
    call = {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    tool_call = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "model": MODEL,
        "messages": [*messages, tool_call, {"role": "tool", "tool_call_id": "call_1", "content": text}],
    }


def growing(body: Body) -> Iterator[Body]:
    """The requests of a conversation: one for each turn of the model, with everything before it.

    The last one holds the whole conversation, unless that ends with the model's turn.
    """
    name = next((name for name in ("messages", "input") if isinstance(body.get(name), list)), None)
    if name is None:
        yield body
        return
    turns: list[Any] = body[name]
    ends = [at for at in range(1, len(turns)) if _by_model(turns[at]) and not _by_model(turns[at - 1])]
    if not ends or not _by_model(turns[-1]):
        ends.append(len(turns))
    for end in ends:
        yield {**body, name: turns[:end]}


def _by_model(turn: Any) -> bool:
    return isinstance(turn, dict) and (turn.get("role") == "assistant" or turn.get("type") in _BY_MODEL)


def strings(value: Any) -> Iterator[str]:
    """Every string in a body, in order, for measures that use only words and length."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for below in value.values():
            yield from strings(below)
    elif isinstance(value, list):
        for below in value:
            yield from strings(below)
