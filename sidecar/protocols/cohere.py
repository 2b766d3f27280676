"""Cohere's API, version 2: chat, embeddings, rankings. From docs.cohere.com/reference and the types of cohere 7.3.1."""

from __future__ import annotations

from sidecar.errors import RequestError
from sidecar.protocols.instructions import add_to_messages
from sidecar.protocols.protocol import (
    END_OF_STREAM,
    Fields,
    Json,
    Protocol,
    Refusal,
    RouteKind,
    Shape,
    StreamState,
    event,
    words,
)

ROUTES = {RouteKind.INFERENCE: "/v2/chat /v2/embed /v2/rerank"}
_NAMES = """
    documents texts inputs images tool_plan citation_options safety_mode strict_tools k p return_prompt raw_prompting
    token_budget embedding_types input_type output_dimension top_n max_tokens_per_doc return_documents stop_sequences
    thinking sources tool_output priority query json_schema
"""
FIELDS = Fields(
    names=words(_NAMES),
    free_form=words("data document tool_output"),
    untrusted=words("tool_output"),
    ids=words(
        """
        messages[].citations[].sources[].id messages[].content[].document.id documents[].id
        messages[].citations[].sources[].type messages[].citations[].type
        """
    ),
    enums={
        "safety_mode": words("CONTEXTUAL STRICT OFF NONE"),
        "mode": words("ENABLED DISABLED FAST ACCURATE OFF enabled disabled fast accurate off"),
        "tool_choice": words("REQUIRED NONE"),
        "input_type": words("search_document search_query classification clustering image"),
        "embedding_types": words("float int8 uint8 binary ubinary base64"),
        "truncate": words("NONE START END"),
        "type": words("document thinking TEXT_CONTENT THINKING_CONTENT PLAN tool"),
    },
    result_texts=(".document.data", ".data.text", ".data.snippet", ".data.content", ".data.result", ".data.output"),
)


def _error_body(error: RequestError) -> Json:
    return {"message": error.detail}


_NO_TOKENS = {"input_tokens": 0, "output_tokens": 0}
_USAGE: Json = {"billed_units": _NO_TOKENS, "tokens": _NO_TOKENS}


def _message(text: str, name: str, _model: str) -> Refusal:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    body = {"id": name, "message": message, "finish_reason": "ERROR", "usage": _USAGE}
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    started = {"message": {"content": {"type": "text", "text": ""}}}
    return Refusal(
        body,
        [
            event("message-start", {"id": name, "delta": {"message": empty}}),
            event("content-start", {"index": 0, "delta": started}),
            event("content-delta", {"index": 0, "delta": {"message": {"content": {"text": text}}}}),
            *_end_message(StreamState(blocks={0})),
        ],
    )


def _end_message(state: StreamState) -> list[bytes]:
    delta: Json = {"finish_reason": "ERROR", "error": "content_filter", "usage": _USAGE}
    return [
        *(event("content-end", {"index": index}) for index in sorted(state.blocks)),
        event("message-end", {"delta": delta}),
        END_OF_STREAM,
    ]


COHERE = Protocol(
    name="cohere",
    routes=ROUTES,
    shapes={},
    default_shape=Shape(),
    error_body=_error_body,
    refusals={"/v2/chat": _message},
    stream_endings={"/v2/chat": _end_message},
    credential_header=lambda _prefix: "Authorization",
    keepalive=b": keepalive\n\n",
    fields=FIELDS,
    independent=words("/v2/embed /v2/rerank"),
    instructions={"/v2/chat": add_to_messages},
)
