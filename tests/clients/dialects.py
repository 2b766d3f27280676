"""Chat completions, messages and responses for the scripted model: each step of a script becomes one response.

A step is a tool call or a text. Each dialect derives the step of a request (the number of its turns by the model), and
encodes the response as JSON, as events, or as a plain 400.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
MODEL = "scripted-1"


@dataclass(frozen=True)
class Call:
    """A call of a tool of the client."""

    name: str
    arguments: Json = field(default_factory=dict)


Step = Call | str


@dataclass(frozen=True)
class Dialect:
    """Request and response format of one API."""

    taken: Callable[[Json], int]
    whole: Callable[[Step, int], Json]
    events: Callable[[Step, int], Iterator[bytes]]
    error: Callable[[str], Json]


def _event(data: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _roles(body: Json) -> int:
    return sum(turn.get("role") == "assistant" for turn in body.get("messages", []))


# Chat completions


def _chat_message(step: Step, number: int) -> Json:
    if isinstance(step, str):
        return {"role": "assistant", "content": step}
    function = {"name": step.name, "arguments": json.dumps(step.arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
    }


def _chat_end(step: Step) -> str:
    return "stop" if isinstance(step, str) else "tool_calls"


def _chat(step: Step, number: int) -> Json:
    choice = {"index": 0, "message": _chat_message(step, number), "logprobs": None, "finish_reason": _chat_end(step)}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return _chat_head("chat.completion") | {"choices": [choice], "usage": usage}


def _chat_head(kind: str) -> Json:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": MODEL}


def _chat_events(step: Step, number: int) -> Iterator[bytes]:
    delta = _chat_message(step, number)
    for index, call in enumerate(delta.get("tool_calls", [])):
        call["index"] = index
    head = _chat_head("chat.completion.chunk")
    for piece, end in ((delta, None), ({}, _chat_end(step))):
        yield _event(head | {"choices": [{"index": 0, "delta": piece, "finish_reason": end}]})
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    yield _event(head | {"choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _openai_error(text: str) -> Json:
    return {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": "content_filter"}}


# Messages


def _block(step: Step, number: int) -> Json:
    if isinstance(step, str):
        return {"type": "text", "text": step}
    return {"type": "tool_use", "id": f"toolu_{number}", "name": step.name, "input": step.arguments}


def _message(step: Step, number: int) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [_block(step, number)],
        "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }


def _message_events(step: Step, number: int) -> Iterator[bytes]:
    whole = _message(step, number)
    block = whole["content"][0]
    if isinstance(step, str):
        empty, delta = block | {"text": ""}, {"type": "text_delta", "text": step}
    else:
        empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
    begun = whole | {"content": [], "stop_reason": None}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    for name, fields in (
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": ended, "usage": {"output_tokens": 10}}),
        ("message_stop", {}),
    ):
        yield _event({"type": name, **fields}, name)


def _anthropic_error(text: str) -> Json:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}


# Responses


def _items(body: Json) -> int:
    given = body.get("input")
    items = given if isinstance(given, list) else []
    return sum(item.get("role") == "assistant" or item.get("type") == "function_call" for item in items)


def _item(step: Step, number: int) -> Json:
    if isinstance(step, str):
        part = {"type": "output_text", "text": step, "annotations": [], "logprobs": []}
        made = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
        return made | {"content": [part]}
    made = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}", "status": "completed"}
    return made | {"name": step.name, "arguments": json.dumps(step.arguments)}


def _response(step: Step, number: int) -> Json:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 20,
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": [_item(step, number)],
        "parallel_tool_calls": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    }


def _response_events(step: Step, number: int) -> Iterator[bytes]:
    whole = _response(step, number)
    item = whole["output"][0]
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    empty = item | {"status": "in_progress"} | ({"content": []} if isinstance(step, str) else {"arguments": ""})
    place = {"item_id": item["id"], "output_index": 0}
    for order, (name, fields) in enumerate(
        [
            ("response.created", {"response": begun}),
            ("response.output_item.added", {"output_index": 0, "item": empty}),
            *_parts(item, place),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": whole}),
        ]
    ):
        yield _event({"type": name, "sequence_number": order, **fields}, name)


def _parts(item: Json, place: Json) -> Iterator[tuple[str, Json]]:
    if item["type"] == "function_call":
        yield "response.function_call_arguments.delta", place | {"delta": item["arguments"]}
        yield "response.function_call_arguments.done", place | {"arguments": item["arguments"], "name": item["name"]}
        return
    part, place = item["content"][0], place | {"content_index": 0}
    yield "response.content_part.added", place | {"part": part | {"text": ""}}
    yield "response.output_text.delta", place | {"delta": part["text"], "logprobs": []}
    yield "response.output_text.done", place | {"text": part["text"], "logprobs": []}
    yield "response.content_part.done", place | {"part": part}


DIALECTS = {
    "/v1/chat/completions": Dialect(_roles, _chat, _chat_events, _openai_error),
    "/v1/messages": Dialect(_roles, _message, _message_events, _anthropic_error),
    "/v1/responses": Dialect(_items, _response, _response_events, _openai_error),
}
