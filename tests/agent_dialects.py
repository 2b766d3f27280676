"""The conversation of `agent_turns` in Google's, Amazon's and Cohere's APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sidecar.util.aws_event_stream import encode

_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
Arguments = dict[str, Any]


def _pieces(text: str, size: int = 7) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _data(event: dict[str, Any], name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(event).encode() + b"\n\n"


def gemini_request(user: str, mail: str, tools: dict[str, str]) -> dict[str, Any]:
    """`generateContent`."""
    call = {"functionCall": {"name": "search_mail", "args": {"query": "Otto"}}}
    result = {"functionResponse": {"name": "search_mail", "response": {"result": mail}}}
    declared = [{"name": name, "description": text, "parameters": _SCHEMA} for name, text in tools.items()]
    return {
        "contents": [
            {"role": "user", "parts": [{"text": user}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [result]},
        ],
        "tools": [{"functionDeclarations": declared}],
    }


def _gemini(*parts: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})], "modelVersion": "m"}


def gemini_body(words: str, tool: str, arguments: Arguments) -> dict[str, Any]:
    """A complete response."""
    call = [{"functionCall": {"name": tool, "args": arguments}}] if tool else []
    return _gemini({"text": words}, *call, reason="STOP")


def gemini_events(words: str, tool: str, arguments: Arguments) -> Iterator[bytes]:
    """A stream: a call is whole in one chunk."""
    yield from (_data(_gemini({"text": piece})) for piece in _pieces(words))
    if tool:
        yield _data(_gemini({"functionCall": {"name": tool, "args": arguments}}))
    yield _data(_gemini(reason="STOP"))


def bedrock_request(user: str, mail: str, tools: dict[str, str]) -> dict[str, Any]:
    """Converse."""
    use = {"toolUse": {"toolUseId": "t1", "name": "search_mail", "input": {"query": "Otto"}}}
    specs = [{"name": name, "description": text, "inputSchema": {"json": _SCHEMA}} for name, text in tools.items()]
    return {
        "messages": [
            {"role": "user", "content": [{"text": user}]},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": mail}]}}]},
        ],
        "toolConfig": {"tools": [{"toolSpec": spec} for spec in specs]},
    }


def bedrock_body(words: str, tool: str, arguments: Arguments) -> dict[str, Any]:
    """A complete response."""
    use = [{"toolUse": {"toolUseId": "t2", "name": tool, "input": arguments}}] if tool else []
    message = {"role": "assistant", "content": [{"text": words}, *use]}
    return {"output": {"message": message}, "stopReason": "tool_use", "usage": {"inputTokens": 1}}


def _message(kind: str, payload: dict[str, Any]) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return encode(headers, json.dumps(payload).encode())


def bedrock_events(words: str, tool: str, arguments: Arguments) -> Iterator[bytes]:
    """An event stream."""
    yield _message("messageStart", {"role": "assistant"})
    for piece in _pieces(words):
        yield _message("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}})
    yield _message("contentBlockStop", {"contentBlockIndex": 0})
    if tool:
        start = {"toolUse": {"toolUseId": "t2", "name": tool}}
        yield _message("contentBlockStart", {"contentBlockIndex": 1, "start": start})
        for piece in _pieces(json.dumps(arguments)):
            yield _message("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": piece}}})
        yield _message("contentBlockStop", {"contentBlockIndex": 1})
    yield _message("messageStop", {"stopReason": "tool_use"})
    yield _message("metadata", {"usage": {"inputTokens": 1}})


def cohere_request(user: str, mail: str, tools: dict[str, str]) -> dict[str, Any]:
    """Version 2's chat."""
    call = {"id": "c1", "type": "function", "function": {"name": "search_mail", "arguments": '{"query": "Otto"}'}}
    functions = [{"name": name, "description": text, "parameters": _SCHEMA} for name, text in tools.items()]
    return {
        "model": "m",
        "messages": [
            {"role": "user", "content": user},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "document", "document": {"data": mail}}]},
        ],
        "tools": [{"type": "function", "function": function} for function in functions],
    }


def cohere_body(words: str, tool: str, arguments: Arguments) -> dict[str, Any]:
    """A complete response: with a call the words are a plan."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    message: dict[str, Any] = {"role": "assistant", "tool_plan": words}
    message |= {"tool_calls": [{"id": "c2", "type": "function", "function": function}]} if tool else {}
    return {"id": "r1", "message": message, "finish_reason": "TOOL_CALL"}


def cohere_events(words: str, tool: str, arguments: Arguments) -> Iterator[bytes]:
    """A stream."""

    def event(kind: str, **fields: Any) -> bytes:
        return _data({"type": kind, **fields}, kind)

    yield event("message-start", id="r1", delta={"message": {"role": "assistant", "content": []}})
    yield from (event("tool-plan-delta", delta={"message": {"tool_plan": piece}}) for piece in _pieces(words))
    if tool:
        head = {"id": "c2", "type": "function", "function": {"name": tool, "arguments": ""}}
        yield event("tool-call-start", index=0, delta={"message": {"tool_calls": head}})
        for piece in _pieces(json.dumps(arguments)):
            call = {"function": {"arguments": piece}}
            yield event("tool-call-delta", index=0, delta={"message": {"tool_calls": call}})
        yield event("tool-call-end", index=0)
    yield event("message-end", delta={"finish_reason": "TOOL_CALL"})
    yield b"data: [DONE]\n\n"
