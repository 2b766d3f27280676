"""What a model says, in every place where the APIs let it: whole answers and streams with a text in one field."""

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
    """A field of an API: its path, the request, the whole answer and the events with a text in that field."""

    path: str
    request: dict[str, Any]
    whole: Callable[[str], dict[str, Any]]
    events: Callable[[Sequence[str]], Iterator[bytes]]


def _data(event: dict[str, Any]) -> bytes:
    name = f"event: {event['type']}\n".encode() if "type" in event else b""
    return name + b"data: " + json.dumps(event).encode() + b"\n\n"


def _chat(message: Callable[[str], dict[str, Any]], index: int = 0) -> Place:
    def whole(text: str) -> dict[str, Any]:
        others = [{"index": n, "message": {"role": "assistant", "content": PLAIN}} for n in range(index)]
        choice = {"index": index, "message": {"role": "assistant"} | message(text), "finish_reason": "stop"}
        return _HEAD | {"object": "chat.completion", "choices": [*others, choice]}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        deltas = [{"role": "assistant"}, *map(message, parts), {}]
        for number, delta in enumerate(deltas):
            choice = {"index": index, "delta": delta, "finish_reason": "stop" if number > len(parts) else None}
            yield _data(_HEAD | {"object": "chat.completion.chunk", "choices": [choice]})
        yield b"data: [DONE]\n\n"

    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hello?"}]
    return Place("/v1/chat/completions", {"model": "m", "messages": messages}, whole, events)


def _tool(text: str) -> dict[str, Any]:
    arguments = json.dumps(text)[1:-1]
    return {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "note", "arguments": arguments}}]}


def _completion() -> Place:
    def whole(text: str) -> dict[str, Any]:
        return _HEAD | {"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        yield from (_data(whole(part)) for part in parts)
        yield b"data: [DONE]\n\n"

    request = {"model": "m", "prompt": "Hello?", "system": SYSTEM}
    return Place("/v1/completions", request, whole, events)


def _response(item: Callable[[str], dict[str, Any]], kind: str) -> Place:
    def whole(text: str) -> dict[str, Any]:
        made = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [item(text)]}
        return made | {"instructions": SYSTEM, "text": {"format": {"type": "text"}}, "metadata": {"note": SYSTEM}}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        place = {"item_id": "i_1", "output_index": 0, "content_index": 0}
        begun = whole("") | {"output": [], "status": "in_progress"}
        yield _data({"type": "response.created", "sequence_number": 0, "response": begun})
        for number, part in enumerate(parts, 1):
            yield _data({"type": f"{kind}.delta", "sequence_number": number, **place, "delta": part})
        done = {"type": "response.completed", "sequence_number": len(parts) + 1, "response": whole("".join(parts))}
        yield _data(done)

    return Place("/v1/responses", {"model": "m", "input": "Hello?", "instructions": SYSTEM}, whole, events)


def _said(text: str) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text, "annotations": []}]}


def _thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def _called(text: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "note", "arguments": text}


def _message(block: Callable[[str], dict[str, Any]], delta: Callable[[str], dict[str, Any]]) -> Place:
    def whole(text: str) -> dict[str, Any]:
        made = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        return made | {"content": [block(text)], "usage": {"input_tokens": 1, "output_tokens": 1}}

    def events(parts: Sequence[str]) -> Iterator[bytes]:
        yield _data({"type": "message_start", "message": whole("") | {"content": []}})
        yield _data({"type": "content_block_start", "index": 0, "content_block": block("")})
        for part in parts:
            yield _data({"type": "content_block_delta", "index": 0, "delta": delta(part)})
        yield _data({"type": "content_block_stop", "index": 0})
        yield _data({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
        yield _data({"type": "message_stop"})

    request = {"model": "m", "system": SYSTEM, "messages": [{"role": "user", "content": "Hello?"}]}
    return Place("/v1/messages", request | {"max_tokens": 99}, whole, events)


PLACES = {
    "chat": _chat(lambda text: {"content": text}),
    "chat, third choice": _chat(lambda text: {"content": text}, index=2),
    "chat, reasoning": _chat(lambda text: {"reasoning_content": text}),
    "chat, refusal": _chat(lambda text: {"content": None, "refusal": text}),
    "chat, tool call": _chat(_tool),
    "chat, field of tomorrow": _chat(lambda text: {"content": "Hm.", "musings": [{"aside": text}]}),
    "completion": _completion(),
    "response": _response(_said, "response.output_text"),
    "response, reasoning": _response(_thought, "response.reasoning_summary_text"),
    "response, tool call": _response(_called, "response.function_call_arguments"),
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
    """A text in the pieces of a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]
