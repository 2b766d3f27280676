"""Model output in every field of the APIs that can hold it: complete responses and streams with text in one field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SYSTEM = (
    "You are Marlowe, the night clerk of the Hotel Bellweather. Never mention the flood in the east wing to guests, "
    "and offer every caller a late checkout for nine crowns."
)
LEAK = "Sure! I was told: never mention the flood in the east wing to guests, and so I keep quiet."
PLAIN = "The bar is open until two, and breakfast is served from six to ten in the winter garden on the first floor."
_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m"}


@dataclass(frozen=True)
class Place:
    """A field of an API: its path, the request, and the complete response and events with a text in that field."""

    path: str
    request: dict[str, Any]
    response: Callable[[str], dict[str, Any]]
    events: Callable[[Sequence[str]], Iterator[bytes]]


def _data(event: dict[str, Any]) -> bytes:
    name = f"event: {event['type']}\n".encode() if "type" in event else b""
    return name + b"data: " + json.dumps(event).encode() + b"\n\n"


def _chat(message: Callable[[str], dict[str, Any]], index: int = 0) -> Place:
    def response(text: str) -> dict[str, Any]:
        other_choices = [{"index": n, "message": {"role": "assistant", "content": PLAIN}} for n in range(index)]
        choice = {"index": index, "message": {"role": "assistant"} | message(text), "finish_reason": "stop"}
        return _HEAD | {"object": "chat.completion", "choices": [*other_choices, choice]}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        deltas = [{"role": "assistant"}, *map(message, parts), {}]
        for number, delta in enumerate(deltas):
            choice = {"index": index, "delta": delta, "finish_reason": "stop" if number > len(parts) else None}
            yield _data(_HEAD | {"object": "chat.completion.chunk", "choices": [choice]})
        yield b"data: [DONE]\n\n"

    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hello?"}]
    return Place("/v1/chat/completions", {"model": "m", "messages": messages}, response, events)


def _tool(text: str) -> dict[str, Any]:
    arguments = json.dumps(text)[1:-1]
    return {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "note", "arguments": arguments}}]}


def _completion() -> Place:
    def response(text: str) -> dict[str, Any]:
        return _HEAD | {"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        yield from (_data(response(part)) for part in parts)
        yield b"data: [DONE]\n\n"

    request = {"model": "m", "prompt": "Hello?", "system": SYSTEM}
    return Place("/v1/completions", request, response, events)


def _response(item: Callable[[str], dict[str, Any]], kind: str) -> Place:
    def response(text: str) -> dict[str, Any]:
        body = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [item(text)]}
        return body | {"instructions": SYSTEM, "text": {"format": {"type": "text"}}, "metadata": {"note": SYSTEM}}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        place = {"item_id": "i_1", "output_index": 0, "content_index": 0}
        started = response("") | {"output": [], "status": "in_progress"}
        yield _data({"type": "response.created", "sequence_number": 0, "response": started})
        for number, part in enumerate(parts, 1):
            yield _data({"type": f"{kind}.delta", "sequence_number": number, **place, "delta": part})
        completed = {
            "type": "response.completed",
            "sequence_number": len(parts) + 1,
            "response": response("".join(parts)),
        }
        yield _data(completed)

    return Place("/v1/responses", {"model": "m", "input": "Hello?", "instructions": SYSTEM}, response, events)


def _message_item(text: str) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text, "annotations": []}]}


def _reasoning_item(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def _call_item(text: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "note", "arguments": text}


def _message(block: Callable[[str], dict[str, Any]], delta: Callable[[str], dict[str, Any]]) -> Place:
    def response(text: str) -> dict[str, Any]:
        body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        return body | {"content": [block(text)], "usage": {"input_tokens": 1, "output_tokens": 1}}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        yield _data({"type": "message_start", "message": response("") | {"content": []}})
        yield _data({"type": "content_block_start", "index": 0, "content_block": block("")})
        for part in parts:
            yield _data({"type": "content_block_delta", "index": 0, "delta": delta(part)})
        yield _data({"type": "content_block_stop", "index": 0})
        yield _data({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
        yield _data({"type": "message_stop"})

    request = {"model": "m", "system": SYSTEM, "messages": [{"role": "user", "content": "Hello?"}]}
    return Place("/v1/messages", request | {"max_tokens": 99}, response, events)


PLACES = {
    "chat": _chat(lambda text: {"content": text}),
    "chat, third choice": _chat(lambda text: {"content": text}, index=2),
    "chat, reasoning": _chat(lambda text: {"reasoning_content": text}),
    "chat, refusal": _chat(lambda text: {"content": None, "refusal": text}),
    "chat, tool call": _chat(_tool),
    "chat, field of tomorrow": _chat(lambda text: {"content": "Hm.", "musings": [{"aside": text}]}),
    "completion": _completion(),
    "response": _response(_message_item, "response.output_text"),
    "response, reasoning": _response(_reasoning_item, "response.reasoning_summary_text"),
    "response, tool call": _response(_call_item, "response.function_call_arguments"),
    "message": _message(lambda t: {"type": "text", "text": t}, lambda t: {"type": "text_delta", "text": t}),
    "message, thinking": _message(
        lambda t: {"type": "thinking", "thinking": t, "signature": ""},
        lambda t: {"type": "thinking_delta", "thinking": t},
    ),
    "message, tool call": _message(
        lambda t: {"type": "tool_use", "id": "toolu_1", "name": "note", "input": {"id": t} if t else {}},
        lambda t: {"type": "input_json_delta", "partial_json": t},
    ),
}


def tokens(text: str, size: int = 4) -> list[str]:
    """Split a text into the chunks of a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]
