"""Responses of a recording upstream by route, in the formats of the OpenAI API, with additional unknown fields."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import unquote

from recording import Received, Script, respond, stream

from sidecar.upstream import echo_shapes as shapes

TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
}
_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m", "x_unknown": {"kept": [1, 2.50, None]}}
PARSED = '{"city": "Paris", "days": 3}'


def _data(*events: object) -> list[bytes]:
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]


def _chat(request: dict) -> dict:
    message: dict = {"role": "assistant", "content": "Paris.", "refusal": None}
    if request.get("tools"):
        message |= {"content": None, "tool_calls": [TOOL_CALL]}
    if request.get("response_format"):
        message |= {"content": PARSED}
    reason = "tool_calls" if request.get("tools") else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return _HEAD | {"object": "chat.completion", "choices": [choice], "usage": usage}


def _chunks(request: dict) -> list[bytes]:
    deltas: list[dict] = [{"role": "assistant", "content": ""}, {"content": "Pa"}, {"content": "ris."}]
    if request.get("tools"):
        function = TOOL_CALL["function"]
        deltas = [
            {"role": "assistant", "tool_calls": [{"index": 0, **TOOL_CALL, "function": function | {"arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]},
        ]
    head = _HEAD | {"object": "chat.completion.chunk", "obfuscation": "xyz"}
    choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return _data(*(head | {"choices": [choice]} for choice in choices), head | {"choices": [], "usage": usage})


def _response(request: dict) -> dict:
    body = shapes.response(request) | {"id": "resp_1", "created_at": 1}
    body["output"][0]["id"] = "msg_1"
    return body


def _response_stream(request: dict) -> list[bytes]:
    response = _response(request)
    return [
        b"event: response.created\ndata: "
        + json.dumps({"type": "response.created", "sequence_number": 0, "response": response}).encode()
        + b"\n\n",
        b"event: response.completed\ndata: "
        + json.dumps({"type": "response.completed", "sequence_number": 1, "response": response}).encode()
        + b"\n\n",
    ]


_CALLED = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris", "x_deep": [1.0]}}


def _message(request: dict) -> dict:
    body = shapes.message(request) | {"id": "msg_1", "x_unknown": {"kept": [1, None]}}
    if request.get("tools"):
        body |= {"content": [*body["content"], _CALLED], "stop_reason": "tool_use"}
    return body


def _message_stream(request: dict) -> list[bytes]:
    events = list(shapes.message_events(request))
    start = json.loads(events[0].partition(b"data: ")[2])
    start["message"]["id"] = "msg_1"
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    return [b"event: message_start\ndata: " + json.dumps(start).encode() + b"\n\n", ping, *events[1:]]


def _plain(received: Received) -> dict:
    """A response that is not a stream."""
    path = received.target.partition("?")[0].removeprefix("/v1")
    if path == "/files":
        return {"id": "file-1", "object": "file", "bytes": 3, "created_at": 1, "filename": "f.txt"} | {
            "purpose": "user_data",
            "status": "processed",
        }
    if path == "/audio/transcriptions":
        return {"text": "hello", "usage": {"type": "duration", "seconds": 1}}
    if path == "/models":
        return shapes.models()
    if path.startswith("/models/"):
        return {"id": unquote(path.removeprefix("/models/")), "object": "model", "created": 1, "owned_by": "x"}
    request = received.json()
    return {
        "/chat/completions": _chat,
        "/responses": _response,
        "/messages": _message,
        "/messages/count_tokens": lambda _: {"input_tokens": 7},
        "/embeddings": shapes.embeddings,
        "/moderations": lambda _: {"id": "modr-1", "model": "m", "results": []},
        "/images/generations": lambda _: {"created": 1, "data": [{"b64_json": "AAAA"}]},
    }[path](request)


async def answer(received: Received, writer: asyncio.StreamWriter) -> None:
    """The script, deterministic so that two runs can be compared."""
    script: Script
    kind = received.header("content-type") or ""
    if kind.startswith("application/json") and received.json().get("stream") is True:
        name = received.target.partition("?")[0].rpartition("/")[2]
        make = {"responses": _response_stream, "messages": _message_stream}.get(name, _chunks)
        script = stream(make(received.json()))
    else:
        body = json.dumps(_plain(received)).encode()
        script = respond(body, "200 OK", "application/json", "x-request-id: req_1", "openai-version: 2020-10-01")
    await script(received, writer)
