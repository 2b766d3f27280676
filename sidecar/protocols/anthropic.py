"""Anthropic's messages API."""

from __future__ import annotations

from sidecar.errors import RequestError
from sidecar.protocols.instructions import add_to_system
from sidecar.protocols.protocol import Json, Protocol, Refusal, RouteKind, StreamState, event, shape

ROUTES = {
    RouteKind.INFERENCE: """
        /messages /messages/count_tokens /messages/batches
    """,
    RouteKind.PASS: """
        /messages/batches/{id}/cancel
    """,
    RouteKind.UNKNOWN: """
        /messages/batches/{id} /messages/batches/{id}/results
    """,
}
_SHAPE = shape("messages[] requests[].params.messages[]", "system requests[].params.system")
_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def _error_body(error: RequestError) -> Json:
    kind = _ERROR_TYPES.get(error.status) or ("api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error.detail}}


def _message(text: str, name: str, model: str) -> Refusal:
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
    return Refusal(
        body,
        [
            event("message_start", {"message": started}),
            event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
            event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}}),
            event("content_block_stop", {"index": 0}),
            event("message_delta", {"delta": stop, "usage": {"output_tokens": 0}}),
            event("message_stop", {}),
        ],
    )


def _end_message(state: StreamState) -> list[bytes]:
    ended = {"stop_reason": "refusal", "stop_sequence": None}
    return [
        *(event("content_block_stop", {"index": index}) for index in sorted(state.blocks)),
        event("message_delta", {"delta": ended, "usage": {"output_tokens": 0}}),
        event("message_stop", {}),
    ]


ANTHROPIC = Protocol(
    name="anthropic",
    routes=ROUTES,
    shapes={},
    default_shape=_SHAPE,
    error_body=_error_body,
    refusals={"/messages": _message},
    stream_endings={"/messages": _end_message},
    credential_header=lambda _prefix: "X-API-Key",
    keepalive=b'event: ping\ndata: {"type": "ping"}\n\n',
    error_event=b"event: error\n",
    instructions=dict.fromkeys(("/messages", "/messages/count_tokens"), add_to_system),
)
