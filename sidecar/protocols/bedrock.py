"""Amazon Bedrock's runtime: Converse and InvokeModel, with their streams.

From docs.aws.amazon.com/bedrock/latest/APIReference and the model of the service in botocore 1.44.8. Requests are
signed (SigV4) over the body, so it is scanned and never changed. The body of InvokeModel is that of the model's own
API: Anthropic's messages are read as such, in any other every string is scanned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sidecar.errors import RequestError
from sidecar.protocols.protocol import Fields, Json, Protocol, Refusal, RouteKind, StreamState, shape, words
from sidecar.util import json
from sidecar.util.aws_event_stream import encode

CONVERSE, CONVERSE_STREAM = "/model/{id}/converse", "/model/{id}/converse-stream"
INVOKE, INVOKE_STREAM = "/model/{id}/invoke", "/model/{id}/invoke-with-response-stream"
ROUTES = {RouteKind.INFERENCE: f"{CONVERSE} {CONVERSE_STREAM} {INVOKE} {INVOKE_STREAM}"}
STREAM_TYPE = "application/vnd.amazon.eventstream"
_NAMES = """
    document toolUse toolUseId toolConfig toolSpec toolChoice inputSchema systemTool cachePoint guardContent qualifiers
    bytes s3Location bucketOwner uri inferenceConfig maxTokens maxNewTokens topP topK stopSequences guardrailConfig
    guardrailIdentifier guardrailVersion trace streamProcessingMode performanceConfig latency serviceTier outputConfig
    textFormat structure jsonSchema additionalModelResponseFieldPaths reasoningContent reasoningText redactedContent
    citationsContent sourceContent location web documentChar documentPage documentChunk documentIndex
    searchResultLocation searchResultIndex start end ttl toolAddition toolRemoval serverName projectIdentifier
    anthropic_version anthropic_beta inputText textGenerationConfig max_gen_len schemaVersion any json
    preamble message chat_history prompt_truncation
"""
_CONTENT = ("messages[].content[]", "messages[].content[].toolResult.content[]")
_MEDIA_IDS = "image.format document.format video.format audio.format"
_IDS = " ".join(f"{content}.{name}" for content in _CONTENT for name in _MEDIA_IDS.split())
FIELDS = Fields(
    names=words(_NAMES),
    free_form=words("json inputSchema promptVariables requestMetadata additionalModelRequestFields"),
    definitions=words("toolConfig outputConfig"),
    untrusted=words("toolResult searchResult citationsContent sourceContent tool_results"),
    references=words("uri"),
    fetches=words("toolConfig.tools[].systemTool"),
    media=words("bytes"),
    ids=words(
        f"""
        {_IDS} messages[].content[].toolUse.toolUseId messages[].content[].toolResult.toolUseId
        messages[].content[].reasoningContent.reasoningText.signature
        messages[].content[].reasoningContent.redactedContent
        guardrailConfig.guardrailIdentifier guardrailConfig.guardrailVersion anthropic_version anthropic_beta[]
        """
    ),
    opaque=words("redactedContent"),
    enums={
        "status": words("success error"),
        "type": words("default server_tool_use"),
        "trace": words("enabled disabled enabled_full"),
        "latency": words("standard optimized"),
        "qualifiers": words("grounding_source query guard_content"),
    },
    prose=words("inputText message preamble"),
    result_texts=(".json.result", ".json.output", ".json.content", ".json.text"),
)

_ERROR_TYPES = {
    401: "AccessDeniedException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
}


def _error_type(error: RequestError) -> str:
    """The name of the exception; a block is an invalid request, whatever its status."""
    if error.code == "content_filter":
        return "ValidationException"
    default = "InternalServerException" if error.status >= 500 else "ValidationException"
    return _ERROR_TYPES.get(error.status, default)


def _error_body(error: RequestError) -> Json:
    return {"message": error.detail}


def _error_headers(error: RequestError) -> Mapping[str, str]:
    return {"x-amzn-errortype": _error_type(error)}


def _frame(kind: str, payload: Json) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return encode(headers, json.dumps(payload))


def _exception(error: RequestError) -> bytes:
    """An exception in a stream, which clients raise."""
    name = _error_type(error)
    headers = {":exception-type": name[0].lower() + name[1:], ":content-type": "application/json"}
    return encode(headers | {":message-type": "exception"}, json.dumps(_error_body(error)))


_FIGURES: Json = {"usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}, "metrics": {"latencyMs": 0}}


def _message(text: str, _name: str, _model: str) -> Refusal:
    message = {"role": "assistant", "content": [{"text": text}]}
    body = {"output": {"message": message}, "stopReason": "content_filtered"} | _FIGURES
    return Refusal(
        body,
        [
            _frame("messageStart", {"role": "assistant"}),
            _frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}),
            *_end_message(StreamState(blocks={0})),
        ],
    )


def _end_message(state: StreamState) -> list[bytes]:
    return [
        *(_frame("contentBlockStop", {"contentBlockIndex": index}) for index in sorted(state.blocks)),
        _frame("messageStop", {"stopReason": "content_filtered"}),
        _frame("metadata", _FIGURES),
    ]


BEDROCK = Protocol(
    name="bedrock",
    routes=ROUTES,
    shapes={},
    default_shape=shape("messages[] chat_history[]", "system preamble"),
    error_body=_error_body,
    refusals={CONVERSE: _message, CONVERSE_STREAM: _message},
    stream_endings={CONVERSE: _end_message, CONVERSE_STREAM: _end_message},
    credential_header=lambda _prefix: "Authorization",
    keepalive=b"",  # every message of an event stream means something
    fields=FIELDS,
    error_headers=_error_headers,
    error_chunk=_exception,
    streaming=frozenset({CONVERSE_STREAM, INVOKE_STREAM}),
    stream_type=STREAM_TYPE,
    generating=frozenset({INVOKE, INVOKE_STREAM}),
    model_in_path=re.compile(r"/model/([^/]+)/[a-z-]+$"),
    stored_prompt=re.compile(r":prompt/"),
    signed=True,
)
