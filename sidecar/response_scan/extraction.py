"""Extracts every model-written text of a response: all choices, tool calls, reasoning, and unknown fields.

All strings count as text except those listed here: ids, enums, media, and fields that echo the request. In a stream
event a text may be a piece of a longer one; its `channel` says of which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sidecar.extraction.json_body import JsonValue

_SILENT = """
    id object model type role status finish_reason stop_reason system_fingerprint service_tier obfuscation item_id
    call_id tool_call_id tool_use_id response_id previous_response_id thread_id run_id assistant_id file_id
    container_id signature encrypted_content encrypted_index b64_json partial_image_b64 data embedding media_type
    finishReason modelVersion responseId thoughtSignature mimeType stopReason toolUseId redactedContent bytes
"""
SILENT = frozenset(_SILENT.split())
"""Names of string fields that hold no model text, outside of objects whose names the model chooses."""
FIGURES = frozenset({"logprobs", "prompt_logprobs", "logprobsResult", "usage", "usageMetadata"})
"""Fields of tokens, whose joined text is a piece of its own (`_tokens`), or of counts."""
ECHOED = frozenset({"instructions", "tools", "tool_choice", "metadata", "prompt", "safety_identifier", "user"})
"""Fields of a response that repeat the request to its sender."""
_TOKENS = frozenset({"logprobs", "logprobsResult"})
SOUND = ("response.audio.delta", "response.output_audio.delta", "response.image_generation_call.partial_image")
"""Events that carry media."""
_PLACES = ("type", "output_index", "content_index", "summary_index", "index", "contentBlockIndex")
_CHUNKS = ("choices.", "candidates.")
_PARTS = re.compile(r"\.parts\.\d+")
_MODEL_NAMED = frozenset({"input", "args"})
"""Fields whose object has names that the model chooses."""
_JSON = frozenset({"arguments", "partial_json"})


@dataclass(slots=True)
class Piece:
    """A text in a response. `channel` is empty for a complete text; `json` marks a text that is itself JSON.

    `owner[key]` is its location in the document; object names, which cannot be replaced, have no owner.
    """

    text: str
    path: str
    channel: str = ""
    json: bool = False
    owner: Any = None
    key: str | int = ""

    def replace(self, text: str) -> None:
        """Replace the text in the document."""
        self.text = text
        if self.owner is not None:
            self.owner[self.key] = text


class _Place(NamedTuple):
    path: str = ""
    delta: bool = False
    free: bool = False


def pieces(document: JsonValue, *, stream: bool = False) -> list[Piece]:
    """The texts of one response, or of one stream event, in document order."""
    if isinstance(document, dict) and document.get("type") in SOUND:
        return []
    channel = _channel(document) if stream and isinstance(document, dict) else ""
    texts: list[Piece] = []
    waiting: list[tuple[JsonValue, Any, str | int, _Place]] = [(document, None, "", _Place())]
    while waiting:
        node, owner, key, at = waiting.pop()
        if isinstance(node, str):
            texts.append(_piece(node, owner, key, at, channel))
        elif isinstance(node, dict):
            if at.free:
                texts += [Piece(name, at.path) for name in node]
            for name in node.keys() & _TOKENS if not at.free else ():
                texts += _tokens(node[name], f"{at.path}.{name}", channel, stream=stream)
            waiting += reversed([(node[name], node, name, place) for name, place in _members(node, at, stream=stream)])
        elif isinstance(node, list):
            waiting += reversed([(item, node, n, _item(at, n, item)) for n, item in enumerate(node)])
    return [piece for piece in texts if piece.text]


def stream_pieces(chunks: list[JsonValue]) -> list[Piece]:
    """The texts of a stream that is a JSON list, and after them each channel as one text, which cannot be replaced."""
    texts: list[Piece] = []
    channels: dict[str, list[Piece]] = {}
    for number, chunk in enumerate(chunks):
        for piece in pieces(chunk, stream=True):
            piece.path = f"{number}.{piece.path}"
            texts.append(piece)
            if piece.channel:
                channels.setdefault(piece.channel, []).append(piece)
    joined = ((parts[0].path, "".join(part.text for part in parts)) for parts in channels.values() if len(parts) > 1)
    return [*texts, *(Piece(text, path) for path, text in joined)]


def _tokens(logprobs: JsonValue, path: str, channel: str, *, stream: bool) -> Iterator[Piece]:
    """The text that tokens with their probabilities spell: usually the content again, but nothing ensures it."""
    lists = logprobs.values() if isinstance(logprobs, dict) else (logprobs,)
    for number, tokens in enumerate(lists):
        if isinstance(tokens, list):
            texts = (token.get("token") if isinstance(token, dict) else token for token in tokens)
            text = "".join(text for text in texts if isinstance(text, str))
            yield Piece(text, path, f"{channel} {path}.{number}" if stream else "")


def _members(node: Mapping[str, JsonValue], at: _Place, *, stream: bool) -> Iterator[tuple[str, _Place]]:
    outermost = at.path in {"", "response"}
    for name, child in node.items():
        if not at.free and (_is_silent(node, name, child) or (outermost and _is_echo(name, child))):
            continue
        delta = at.delta or (stream and _is_delta(name, at.path))
        path = f"{at.path}.{name}" if at.path else name
        yield name, _Place(path, delta, at.free or (name in _MODEL_NAMED and isinstance(child, dict)))


def _is_delta(name: str, path: str) -> bool:
    """Whether the field of a stream event holds the next piece of a text."""
    if name == "text":
        return path.startswith(_CHUNKS)
    return name == "delta" or (name == "stringValue" and ".partialArgs." in path)


def _is_echo(name: str, child: JsonValue) -> bool:
    """Whether the field repeats the request; `text` does where it is the requested format (an object)."""
    return name in ECHOED or (name == "text" and isinstance(child, dict))


def _is_silent(node: Mapping[str, JsonValue], name: str, child: JsonValue) -> bool:
    image = name == "result" and node.get("type") == "image_generation_call"
    return image or name in FIGURES or (name in SILENT and isinstance(child, str))


def _item(at: _Place, number: int, item: JsonValue) -> _Place:
    """The place of a list item; items of a stream carry their own index."""
    index = item.get("index") if isinstance(item, dict) and not at.free else None
    return at._replace(path=f"{at.path}.{index if isinstance(index, int) else number}")


def _channel(document: Mapping[str, JsonValue]) -> str:
    return ":".join(str(document.get(name, "")) for name in _PLACES)


def _piece(text: str, owner: Any, key: str | int, at: _Place, channel: str) -> Piece:
    is_json = not at.free and (key in _JSON or "arguments" in channel)
    place = _PARTS.sub(".parts", at.path)  # Google numbers the parts of each chunk from the start
    return Piece(text, at.path, f"{channel} {place}" if at.delta else "", is_json, owner, key)
