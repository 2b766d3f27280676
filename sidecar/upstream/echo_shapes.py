"""Response shapes of the echo upstream: complete bodies and streams of server-sent events."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import struct
import time
from collections.abc import Iterator
from typing import Any

from sidecar.util import json

Json = dict[str, Any]
MODEL = "echo"
DIMENSIONS = 64
MAX_DIMENSIONS = 4096
_TOKEN = re.compile(r"\s*\S+|\s+$")
DONE = b"data: [DONE]\n\n"


def error(message: str, code: str) -> Json:
    """OpenAI's error envelope."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def models() -> Json:
    """The list of the single model."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "sidecar"}]}


def chat(document: Json) -> Json:
    """A chat completion."""
    text = _last_user_text(document.get("messages"))
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return _envelope(document, "chatcmpl", "chat.completion") | {"choices": [choice], "usage": _usage(document, text)}


def chat_events(document: Json) -> Iterator[bytes]:
    """The same, token by token."""
    head, text = _envelope(document, "chatcmpl", "chat.completion.chunk"), _last_user_text(document.get("messages"))
    deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": token}, None) for token in tokens(text)]
    for delta, reason in [*deltas, ({}, "stop")]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        yield _data(head | {"choices": [choice]})
    yield from _last_usage(document, head, text)
    yield DONE


def completion(document: Json) -> Json:
    """A legacy completion."""
    text = _text(document.get("prompt"))
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
    return _envelope(document, "cmpl", "text_completion") | {"choices": [choice], "usage": _usage(document, text)}


def completion_events(document: Json) -> Iterator[bytes]:
    """The same, token by token."""
    head, text = _envelope(document, "cmpl", "text_completion"), _text(document.get("prompt"))
    for token, reason in [*((token, None) for token in tokens(text)), ("", "stop")]:
        yield _data(head | {"choices": [{"index": 0, "text": token, "logprobs": None, "finish_reason": reason}]})
    yield from _last_usage(document, head, text)
    yield DONE


def response(document: Json) -> Json:
    """A response of the Responses API."""
    prompt = document.get("input")
    text = prompt if isinstance(prompt, str) else _last_user_text(prompt)
    return _response(document, "completed", [_item(text)]) | {"usage": _response_usage(document, text)}


def response_events(document: Json) -> Iterator[bytes]:
    """The same as events, numbered from 0."""
    complete = response(document)
    item = complete["output"][0]
    part = item["content"][0]
    started = complete | {"status": "in_progress", "output": [], "usage": None}
    position = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": started}),
        ("response.in_progress", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": item | {"status": "in_progress", "content": []}}),
        ("response.content_part.added", position | {"part": part | {"text": ""}}),
        *(("response.output_text.delta", position | {"delta": t, "logprobs": []}) for t in tokens(part["text"])),
        ("response.output_text.done", position | {"text": part["text"], "logprobs": []}),
        ("response.content_part.done", position | {"part": part}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": complete}),
    ]
    for number, (name, fields) in enumerate(events):
        yield _event(name, fields | {"sequence_number": number})


def message(document: Json) -> Json:
    """A response of the Messages API."""
    text = _last_user_text(document.get("messages"))
    usage = {"input_tokens": _count(document), "output_tokens": len(tokens(text))}
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": _model(document),
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def message_events(document: Json) -> Iterator[bytes]:
    """The same as events."""
    complete = message(document)
    text, usage = complete["content"][0]["text"], complete["usage"]
    started = complete | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 0}}
    yield _event("message_start", {"message": started})
    yield _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    for token in tokens(text):
        yield _event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": token}})
    yield _event("content_block_stop", {"index": 0})
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _event("message_delta", {"delta": stop, "usage": {"output_tokens": usage["output_tokens"]}})
    yield _event("message_stop", {})


def embeddings(document: Json) -> Json:
    """A vector per input, determined by the input alone."""
    source = document.get("input")
    inputs = source if isinstance(source, list) and not all(isinstance(item, int) for item in source) else [source]
    dimensions = document.get("dimensions")
    size = min(dimensions, MAX_DIMENSIONS) if isinstance(dimensions, int) and dimensions > 0 else DIMENSIONS
    packed = document.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(item, size, packed=packed)}
        for index, item in enumerate(inputs)
    ]
    usage = {"prompt_tokens": len(inputs), "total_tokens": len(inputs)}
    return {"object": "list", "data": data, "model": _model(document), "usage": usage}


def moderation(document: Json) -> Json:
    """Nothing is flagged."""
    source = document.get("input")
    count = len(source) if isinstance(source, list) else 1
    result: Json = {"flagged": False, "categories": {}, "category_scores": {}, "category_applied_input_types": {}}
    return {"id": f"modr-{secrets.token_hex(12)}", "model": _model(document), "results": [result] * count}


def tokens(text: str) -> list[str]:
    """Words with their preceding whitespace; joined, they are the text."""
    return _TOKEN.findall(text)


def _vector(item: object, size: int, *, packed: bool) -> list[float] | str:
    digest = hashlib.shake_256(json.dumps(item)).digest(size)
    numbers = [byte / 127.5 - 1.0 for byte in digest]
    return base64.b64encode(struct.pack(f"<{size}f", *numbers)).decode() if packed else numbers


def _envelope(document: Json, prefix: str, kind: str) -> Json:
    head = {"id": f"{prefix}-{secrets.token_hex(12)}", "object": kind, "created": int(time.time())}
    return head | {"model": _model(document), "system_fingerprint": "echo"}


def _response(document: Json, status: str, output: list[Json]) -> Json:
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": _model(document),
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }


def _item(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "status": "completed"}
    return item | {"role": "assistant", "content": [part]}


def _model(document: Json) -> str:
    model = document.get("model")
    return model if isinstance(model, str) else MODEL


def _last_user_text(messages: object) -> str:
    """The text of the last user message, or of the last message if no user message exists."""
    turns = [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
    user_turns = [m for m in turns if m.get("role") == "user"] or turns
    return _text(user_turns[-1].get("content")) if user_turns else ""


def _text(content: object) -> str:
    """The text of a string, or of a list of strings and parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _count(document: Json) -> int:
    return len(tokens(json.dumps(document.get("messages") or document.get("input") or "").decode()))


def _usage(document: Json, text: str) -> Json:
    prompt_tokens, completion_tokens = _count(document), len(tokens(text))
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _response_usage(document: Json, text: str) -> Json:
    input_tokens, output_tokens = _count(document), len(tokens(text))
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input_tokens + output_tokens,
    }


def _last_usage(document: Json, head: Json, text: str) -> Iterator[bytes]:
    options = document.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        yield _data(head | {"choices": [], "usage": _usage(document, text)})


def _data(value: Json) -> bytes:
    return b"data: " + json.dumps(value) + b"\n\n"


def _event(name: str, fields: Json) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name} | fields)
