"""OpenAI's API, and what others serve in its form: chat completions, completions, responses, and everything beside."""

from __future__ import annotations

import time

from sidecar.errors import RequestError
from sidecar.protocols.instructions import add_to_instructions, add_to_messages
from sidecar.protocols.protocol import (
    END_OF_STREAM,
    Json,
    Protocol,
    Refusal,
    RouteKind,
    Shape,
    StreamState,
    data,
    event,
    shape,
)

# Kinds of POST routes. A GET, HEAD or DELETE of any of these is `PASS`, except for the websockets.
ROUTES = {
    RouteKind.INFERENCE: """
        /chat/completions /completions /responses /responses/compact /responses/input_tokens
        /embeddings /moderations /images/generations /audio/speech /videos/{id}/remix /threads/runs
        /rerank /score /tokenize
    """,
    RouteKind.STATEFUL: """
        /traces/ingest
        /chat/completions/{id}
        /assistants /assistants/{id} /threads /threads/{id} /threads/{id}/messages /threads/{id}/messages/{id}
        /threads/{id}/runs /threads/{id}/runs/{id} /threads/{id}/runs/{id}/submit_tool_outputs
        /conversations /conversations/{id} /conversations/{id}/items
        /realtime/client_secrets /realtime/sessions /realtime/transcription_sessions
        /realtime/translations/client_secrets
        /realtime/calls/{id}/accept /realtime/calls/{id}/reject /realtime/calls/{id}/refer
        /chatkit/sessions /evals /evals/{id} /evals/{id}/runs
        /fine_tuning/jobs /fine_tuning/alpha/graders/run /fine_tuning/alpha/graders/validate
        /fine_tuning/checkpoints/{id}/permissions
        /vector_stores /vector_stores/{id} /vector_stores/{id}/search /containers
    """,
    RouteKind.FILES: """
        /files /uploads /uploads/{id}/parts /uploads/{id}/complete /batches
        /skills /skills/{id} /skills/{id}/versions /containers/{id}/files
        /vector_stores/{id}/files /vector_stores/{id}/files/{id} /vector_stores/{id}/file_batches
    """,
    RouteKind.MULTIPART: """
        /audio/transcriptions /audio/translations /audio/voices /audio/voice_consents /audio/voice_consents/{id}
        /images/edits /images/variations /videos /videos/characters /videos/edits /videos/extensions
        /realtime/calls
    """,
    RouteKind.PASS: """
        /responses/{id}/cancel /threads/{id}/runs/{id}/cancel /batches/{id}/cancel /uploads/{id}/cancel
        /chatkit/sessions/{id}/cancel /realtime/calls/{id}/hangup
        /evals/{id}/runs/{id} /evals/{id}/runs/{id}/cancel /vector_stores/{id}/file_batches/{id}/cancel
        /fine_tuning/jobs/{id}/cancel /fine_tuning/jobs/{id}/pause /fine_tuning/jobs/{id}/resume
    """,
    RouteKind.UNKNOWN: """
        /realtime /models /models/{id} /chat/completions/{id}/messages /responses/{id} /responses/{id}/input_items
        /conversations/{id}/items/{id} /threads/{id}/runs/{id}/steps /threads/{id}/runs/{id}/steps/{id}
        /files/{id} /files/{id}/content /batches/{id}
        /videos/{id} /videos/{id}/content /videos/characters/{id} /audio/voices/{id}
        /chatkit/threads /chatkit/threads/{id} /chatkit/threads/{id}/items
        /evals/{id}/runs/{id}/output_items /evals/{id}/runs/{id}/output_items/{id}
        /fine_tuning/jobs/{id} /fine_tuning/jobs/{id}/events /fine_tuning/jobs/{id}/checkpoints
        /fine_tuning/checkpoints/{id}/permissions/{id}
        /vector_stores/{id}/files/{id}/content /vector_stores/{id}/file_batches/{id}
        /vector_stores/{id}/file_batches/{id}/files
        /skills/{id}/content /skills/{id}/versions/{id} /skills/{id}/versions/{id}/content
        /containers/{id} /containers/{id}/files/{id} /containers/{id}/files/{id}/content
    """,
}
_RESPONSE_SHAPE = shape("input[] response.input[]", "instructions")
_RUN = shape("additional_messages[] thread.messages[]", "instructions additional_instructions")
_EVAL = shape("data_source.input_messages.template[]")
SHAPES = {
    "/responses": _RESPONSE_SHAPE,
    "/responses/compact": _RESPONSE_SHAPE,
    "/responses/input_tokens": _RESPONSE_SHAPE,
    "/conversations": shape("items[]"),
    "/conversations/{id}/items": shape("items[]"),
    "/threads": shape("messages[]"),
    "/threads/{id}/messages": Shape(turns=frozenset({""})),
    "/threads/runs": _RUN,
    "/threads/{id}/runs": _RUN,
    "/assistants": shape("", "instructions"),
    "/assistants/{id}": shape("", "instructions"),
    "/realtime/client_secrets": shape("", "session.instructions"),
    "/realtime/sessions": shape("", "instructions"),
    "/realtime/calls/{id}/accept": shape("", "instructions"),
    "/evals/{id}/runs": _EVAL,
}
"""Where the operations' bodies have their turns; all others have them in `messages`."""

_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def _error_body(error: RequestError) -> Json:
    kind = _ERROR_TYPES.get(error.status) or ("server_error" if error.status >= 500 else "invalid_request_error")
    if error.code == "content_filter":  # whatever its status, a block is no reason to look for other credentials
        kind = "invalid_request_error"
    return {"error": {"message": error.detail, "type": kind, "param": error.param, "code": error.code}}


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


def _chat(text: str, name: str, model: str) -> Refusal:
    head: Json = {"id": f"chatcmpl-{name}", "created": int(time.time()), "model": model}
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "content_filter"}
    body = head | {"object": "chat.completion", "choices": [choice], "usage": _NO_USAGE}
    deltas: list[tuple[Json, str | None]] = [({"role": "assistant", "content": text}, None), ({}, "content_filter")]
    chunks = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason} for delta, reason in deltas]
    events = [data(head | {"object": "chat.completion.chunk", "choices": [chunk]}) for chunk in chunks]
    return Refusal(body, [*events, END_OF_STREAM])


def _completion(text: str, name: str, model: str) -> Refusal:
    head: Json = {"id": f"cmpl-{name}", "object": "text_completion", "created": int(time.time()), "model": model}
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "content_filter"}
    chunk = head | {"choices": [choice]}
    return Refusal(chunk | {"usage": _NO_USAGE}, [data(chunk), END_OF_STREAM])


def _response(text: str, name: str, model: str) -> Refusal:
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
    return Refusal(body, [event(kind, fields | {"sequence_number": n}) for n, (kind, fields) in enumerate(events)])


def _end_chat(state: StreamState) -> list[bytes]:
    return _end_choices(state, {"delta": {}})


def _end_completion(state: StreamState) -> list[bytes]:
    return _end_choices(state, {"text": ""})


def _end_choices(state: StreamState, empty_delta: Json) -> list[bytes]:
    ended = {**empty_delta, "logprobs": None, "finish_reason": "content_filter"}
    choices = [{"index": index, **ended} for index in sorted(state.choices or {0})]
    return [data(state.head | {"choices": choices}), END_OF_STREAM]


def _end_response(state: StreamState) -> list[bytes]:
    ending: Json = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []}
    return [event("response.incomplete", {"response": state.head | ending, "sequence_number": state.number})]


def _credential_header(prefix: str) -> str:
    """Azure's routes, except `/openai/v1`: Azure accepts both headers there, other upstreams only `Authorization`."""
    return "Api-Key" if prefix.startswith("/openai") and prefix != "/openai/v1" else "Authorization"


OPENAI = Protocol(
    name="openai",
    routes=ROUTES,
    shapes=SHAPES,
    default_shape=Shape(),
    error_body=_error_body,
    refusals={"/chat/completions": _chat, "/completions": _completion, "/responses": _response},
    stream_endings={"/chat/completions": _end_chat, "/completions": _end_completion, "/responses": _end_response},
    credential_header=_credential_header,
    keepalive=b": keepalive\n\n",  # parsers ignore a comment between two events (WHATWG HTML, 9.2.6)
    independent=frozenset({"/embeddings"}),
    instructions={
        "/chat/completions": add_to_messages,
        **dict.fromkeys(("/responses", "/responses/compact", "/responses/input_tokens"), add_to_instructions),
    },
)
