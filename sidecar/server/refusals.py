"""Synthetic completions for `block.style: refusal`: a regular response of the API, complete or as a stream.

For clients that cannot handle an error: status 200, a short text, and a finish reason that states the cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from sidecar.util import json

Json = dict[str, Any]
_Completion = tuple[Json, list[bytes]]


def refusal(operation: str, text: str, *, decision_id: str, model: str, stream: bool) -> web.Response | None:
    """The refusal in the response format of `operation`, None if its responses are not text."""
    make = _SHAPES.get(operation)
    if make is None:
        return None
    body, events = make(text, decision_id.removeprefix("dec_"), model)
    if not stream:
        return web.Response(body=json.dumps(body), content_type="application/json")
    headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    return web.Response(body=b"".join(events), headers=headers)


def _chat(text: str, name: str, model: str) -> _Completion:
    head: Json = {"id": f"chatcmpl-{name}", "created": int(time.time()), "model": model}
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "content_filter"}
    body = head | {"object": "chat.completion", "choices": [choice], "usage": _NO_USAGE}
    deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": text}, None), ({}, "content_filter")]
    chunks = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason} for delta, reason in deltas]
    return body, [*(_data(head | {"object": "chat.completion.chunk", "choices": [c]}) for c in chunks), _END_OF_STREAM]


def _completion(text: str, name: str, model: str) -> _Completion:
    head: Json = {"id": f"cmpl-{name}", "object": "text_completion", "created": int(time.time()), "model": model}
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "content_filter"}
    chunk = head | {"choices": [choice]}
    return chunk | {"usage": _NO_USAGE}, [_data(chunk), _END_OF_STREAM]


def _response(text: str, name: str, model: str) -> _Completion:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item: Json = {"id": f"msg_{name}", "type": "message", "status": "incomplete", "role": "assistant"}
    body = _RESPONSE | {
        "id": f"resp_{name}",
        "created_at": int(time.time()),
        "model": model,
        "status": "incomplete",
        "incomplete_details": {"reason": "content_filter"},
        "output": [item | {"content": [part]}],
    }
    started = body | {"status": "in_progress", "incomplete_details": None, "output": []}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": started}),
        ("response.in_progress", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": item | {"status": "in_progress", "content": []}}),
        ("response.content_part.added", place | {"part": part | {"text": ""}}),
        ("response.output_text.delta", place | {"delta": text, "logprobs": []}),
        ("response.output_text.done", place | {"text": text, "logprobs": []}),
        ("response.content_part.done", place | {"part": part}),
        ("response.output_item.done", {"output_index": 0, "item": body["output"][0]}),
        ("response.incomplete", {"response": body}),
    ]
    return body, [_event(kind, fields | {"sequence_number": n}) for n, (kind, fields) in enumerate(events)]


def _message(text: str, name: str, model: str) -> _Completion:
    body: Json = {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "refusal",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    started = body | {"content": [], "stop_reason": None}
    stop = {"stop_reason": "refusal", "stop_sequence": None}
    return body, [
        _event("message_start", {"message": started}),
        _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        _event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}}),
        _event("content_block_stop", {"index": 0}),
        _event("message_delta", {"delta": stop, "usage": {"output_tokens": 0}}),
        _event("message_stop", {}),
    ]


def _data(value: Json) -> bytes:
    return b"data: " + json.dumps(value) + b"\n\n"


def _event(name: str, fields: Json) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name} | fields)


_END_OF_STREAM = b"data: [DONE]\n\n"
_NO_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
_RESPONSE: Json = {
    "object": "response",
    "error": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "usage": None,
}
_SHAPES: dict[str, Callable[[str, str, str], _Completion]] = {
    "/chat/completions": _chat,
    "/completions": _completion,
    "/responses": _response,
    "/messages": _message,
}
