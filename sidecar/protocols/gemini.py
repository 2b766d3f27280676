"""Google's Gemini API and the same operations of Vertex AI: `generateContent`, its stream, tokens, embeddings.

From ai.google.dev/api and cloud.google.com/vertex-ai/generative-ai/docs, and the types of google-genai 3.6.1. JSON of
protocol buffers: every name exists in camel case and in snake case, and a list of one item may be given as the item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sidecar.errors import RequestError
from sidecar.protocols.instructions import add_to_system_instruction
from sidecar.protocols.protocol import (
    Fields,
    Json,
    Protocol,
    Refusal,
    RouteKind,
    Shape,
    StreamState,
    data,
    words,
)
from sidecar.types import Source

_GENERATE = "/models/{id}:generateContent /tunedModels/{id}:generateContent"
_STREAM = "/models/{id}:streamGenerateContent /tunedModels/{id}:streamGenerateContent"
_EMBED = "/models/{id}:embedContent /models/{id}:batchEmbedContents /models/{id}:predict"
ROUTES = {
    RouteKind.INFERENCE: f"""
        {_GENERATE} {_STREAM} {_EMBED}
        /models/{{id}}:countTokens /models/{{id}}:computeTokens /models/{{id}}:predictLongRunning
    """,
    RouteKind.STATEFUL: "/cachedContents",
}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda hit: f"_{hit[1].lower()}", name)


def _spellings(names: str) -> frozenset[str]:
    """These names or paths as written, in camel case, and in snake case."""
    return frozenset(spelling for name in names.split() for spelling in (name, _snake(name)))


def _below(*places: str, names: str) -> frozenset[str]:
    return frozenset(f"{place}.{name}" if place else name for place in places for name in names.split())


_REQUESTS = ("", "generateContentRequest", "generate_content_request")
_SHAPE = Shape(
    turns=_below(*_REQUESTS, names="contents contents[] content") | words("requests[].content content[]"),
    system=_below(*_REQUESTS, names="systemInstruction system_instruction"),
)
_PARTS = [
    f"{place}.parts{suffix}"
    for place in sorted(_SHAPE.turns | _SHAPE.system)
    for suffix in ("", "[]")  # a list of one may be given as its item
]
_NAMES = """
    contents parts role systemInstruction generateContentRequest functionCall executableCode thought thoughtSignature
    inlineData fileData fileUri mimeType displayName videoMetadata startOffset endOffset fps partMetadata willContinue
    scheduling partialArgs jsonPath stringValue mediaResolution level toolCall
    safetySettings category threshold method generationConfig cachedContent labels functionCallingConfig
    allowedFunctionNames retrievalConfig languageCode latLng latitude longitude
    stopSequences responseMimeType responseModalities candidateCount maxOutputTokens topP topK presencePenalty
    frequencyPenalty responseLogprobs thinkingConfig includeThoughts thinkingBudget thinkingLevel speechConfig
    voiceConfig prebuiltVoiceConfig voiceName multiSpeakerVoiceConfig speakerVoiceConfigs speaker imageConfig
    aspectRatio imageSize routingConfig autoMode manualMode modelName modelRoutingPreference audioTimestamp
    modelArmorConfig promptTemplateName responseTemplateName taskType outputDimensionality autoTruncate
    googleSearch googleSearchRetrieval enterpriseWebSearch urlContext codeExecution googleMaps fileSearch retrieval
    computerUse instances bytesBase64Encoded gcsUri expireTime streamFunctionCallArguments
"""
_FETCHES = """
    googleSearch googleSearchRetrieval enterpriseWebSearch urlContext googleMaps fileSearch retrieval mcpServers
"""
_HARM = "HARASSMENT HATE_SPEECH SEXUALLY_EXPLICIT DANGEROUS_CONTENT CIVIC_INTEGRITY UNSPECIFIED"
_TASKS = """
    RETRIEVAL_QUERY RETRIEVAL_DOCUMENT SEMANTIC_SIMILARITY CLASSIFICATION CLUSTERING QUESTION_ANSWERING
    FACT_VERIFICATION CODE_RETRIEVAL_QUERY
"""


def _enums(values: dict[str, str]) -> dict[str, frozenset[str]]:
    return {spelling: words(values[name]) for name in values for spelling in _spellings(name)}


FIELDS = Fields(
    names=_spellings(_NAMES),
    free_form=_spellings("args response partMetadata labels parametersJsonSchema responseJsonSchema responseSchema"),
    definitions=_spellings("functionDeclarations toolConfig responseSchema responseJsonSchema parametersJsonSchema"),
    untrusted=_spellings("functionResponse toolResponse codeExecutionResult"),
    references=_spellings("fileUri cachedContent gcsUri"),
    fetches=_spellings(" ".join(f"{tools}.{name}" for name in _FETCHES.split() for tools in ("tools", "tools[]"))),
    media=_spellings("bytesBase64Encoded"),
    ids=_spellings("generateContentRequest.model requests[].model")
    | _spellings(" ".join(f"{part}.{name}" for part in _PARTS for name in ("thoughtSignature", "inlineData.mimeType")))
    | _spellings(
        " ".join(f"{part}.{name}" for part in _PARTS for name in ("fileData.mimeType", "functionResponse.id"))
    ),
    opaque=_spellings("thoughtSignature"),
    enums={
        "role": words("model"),
        "mode": words("AUTO ANY NONE VALIDATED"),
        "category": frozenset(f"HARM_CATEGORY_{name}" for name in _HARM.split()),
        "threshold": words("OFF BLOCK_NONE BLOCK_ONLY_HIGH BLOCK_MEDIUM_AND_ABOVE BLOCK_LOW_AND_ABOVE"),
        **_enums({"responseModalities": "TEXT IMAGE AUDIO", "taskType": _TASKS}),
        **_enums({"responseMimeType": "text/plain application/json text/x.enum"}),
        **_enums({"thinkingLevel": "MINIMAL LOW MEDIUM HIGH minimal low medium high"}),
    },
    roles={"user": Source.USER, "model": Source.MODEL, "function": Source.UNTRUSTED},
    result_texts=(".response.result", ".response.output", ".response.error", ".response.content"),
)

_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _error_body(error: RequestError) -> Json:
    """Google's `Status`: a block is an invalid argument, whatever its HTTP status."""
    status = _STATUSES.get(error.status) or ("INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT")
    if error.code == "content_filter":
        status = "INVALID_ARGUMENT"
    detail: Json = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": error.code.upper()}
    detail |= {"domain": "prompt-sidecar", "metadata": {"path": error.param} if error.param else {}}
    return {"error": {"code": error.status, "message": error.detail, "status": status, "details": [detail]}}


def _candidate(text: str, index: int = 0) -> Json:
    content = {"parts": [{"text": text}], "role": "model"}
    return {"content": content, "finishReason": "SAFETY", "index": index}


def _response(text: str, name: str, model: str) -> Refusal:
    usage = {"promptTokenCount": 0, "totalTokenCount": 0}
    body = {"candidates": [_candidate(text)], "usageMetadata": usage, "modelVersion": model, "responseId": name}
    return Refusal(body, [data(body)])


def _end_stream(state: StreamState) -> list[bytes]:
    candidates = [_candidate("", index) for index in sorted(state.choices or {0})]
    return [data({"candidates": candidates} | state.head)]


def _each(operations: str, *more: str) -> Iterable[str]:
    return " ".join((operations, *more)).split()


GEMINI = Protocol(
    name="gemini",
    routes=ROUTES,
    shapes={},
    default_shape=_SHAPE,
    error_body=_error_body,
    refusals=dict.fromkeys(_each(_GENERATE, _STREAM), _response),
    stream_endings=dict.fromkeys(_each(_GENERATE, _STREAM), _end_stream),
    credential_header=lambda _prefix: "X-Goog-Api-Key",
    keepalive=b"\n\n",  # google-genai takes a comment for a piece of JSON; an empty event is none
    fields=FIELDS,
    streaming=words(_STREAM),
    model_in_path=re.compile(r"/(?:models|tunedModels)/([^/]+):[A-Za-z]+$"),
    independent=words(_EMBED),
    instructions=dict.fromkeys(_each(_GENERATE, _STREAM), add_to_system_instruction),
)
