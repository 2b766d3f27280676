"""What differs between the APIs that the inline proxy serves. Each protocol is one module with one `Protocol`.

A protocol knows its routes, where the texts of its bodies are, its error envelope, how a refusal looks as a regular
response, how a stream ends early, and its keepalive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sidecar.errors import RequestError
from sidecar.types import Source
from sidecar.util import json

Json = dict[str, Any]
END_OF_STREAM = b"data: [DONE]\n\n"


class RouteKind(StrEnum):
    """How a route uses text, which determines how its body is handled."""

    INFERENCE = "inference"
    """A JSON body that a model reads immediately."""
    STATEFUL = "stateful"
    """A JSON body whose text is stored and used later."""
    FILES = "files"
    """An upload, or a reference to one: `inline.files` decides."""
    MULTIPART = "multipart"
    """A form (or JSON) with media and text fields that are prompts."""
    WEBSOCKET = "websocket"
    """A websocket, on which text would pass unscanned."""
    PASS = "pass"
    """No text in the request: a body here is refused."""
    UNKNOWN = "unknown"
    """Not in the table."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Where an operation keeps its turns (`""`: the body is a turn) and the application's instructions."""

    turns: frozenset[str] = frozenset({"messages[]"})
    system: frozenset[str] = frozenset()


def shape(turns: str = "", system: str = "") -> Shape:
    """A shape from the patterns of its paths, separated by blanks."""
    return Shape(frozenset(turns.split()), frozenset(system.split()))


def words(text: str) -> frozenset[str]:
    """The words of a text, separated by blanks."""
    return frozenset(text.split())


NO_WORDS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fields:
    """What the field names of an API mean, beside those that all APIs share (`extraction.field_table`).

    `ids` and `fetches` are paths as in `contents[].parts[].thoughtSignature`; all others are names.
    """

    names: frozenset[str] = NO_WORDS
    """Names that the API defines and that have no meaning below."""
    free_form: frozenset[str] = NO_WORDS
    """Objects whose names the client chooses."""
    definitions: frozenset[str] = NO_WORDS
    """Definitions of the application: tools and response schemas."""
    untrusted: frozenset[str] = NO_WORDS
    """Results of tools, documents and quotations, in a turn of any author."""
    references: frozenset[str] = NO_WORDS
    fetches: frozenset[str] = NO_WORDS
    media: frozenset[str] = NO_WORDS
    ids: frozenset[str] = NO_WORDS
    opaque: frozenset[str] = NO_WORDS
    enums: Mapping[str, frozenset[str]] = field(default_factory=dict)
    roles: Mapping[str, Source] | None = None
    """The source of a turn by its role, instead of the shared table."""
    prose: frozenset[str] = NO_WORDS
    """Texts that a model reads in sequence, so that a sentence may be split across them."""
    result_texts: tuple[str, ...] = ()
    """Ends of the paths of such texts where the result of a tool is an object with the tool's own names."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal as a regular response: the whole body, and the same as the events of a stream."""

    body: Json
    events: list[bytes]


@dataclass(slots=True)
class StreamState:
    """What the last events of a stream that is cut off must repeat or close."""

    head: Json = field(default_factory=dict)
    """Fields of the upstream's first event."""
    choices: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    """Content blocks that are open at the client."""
    number: int = 0
    """The next sequence number."""


MakeRefusal = Callable[[str, str, str], Refusal]
"""From the text, the decision's number, and the model."""
MakeEnding = Callable[[StreamState], list[bytes]]
AddInstruction = Callable[[Json, str], bool]
"""Adds a text to the application's instructions in a body; False if the body has no place for it."""


def _no_headers(_error: RequestError) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Protocol:
    """One API. Operations are paths without prefix, as `/chat/completions`."""

    name: str
    routes: Mapping[RouteKind, str]
    """Operations of its POST routes by kind, separated by blanks."""
    shapes: Mapping[str, Shape]
    default_shape: Shape
    error_body: Callable[[RequestError], Json]
    """The error envelope."""
    refusals: Mapping[str, MakeRefusal]
    """By operation: those whose responses are text."""
    stream_endings: Mapping[str, MakeEnding]
    credential_header: Callable[[str], str]
    """The header of the upstream's key, by the prefix of the route."""
    keepalive: bytes
    """An event that clients ignore."""
    error_event: bytes = b""
    """The line before the data of an error event."""
    fields: Fields | None = None
    """What its field names mean; None: only the shared ones."""
    error_headers: Callable[[RequestError], Mapping[str, str]] = _no_headers
    """Header fields of an error."""
    error_chunk: Callable[[RequestError], bytes] | None = None
    """An error inside of a stream, where that is no server-sent event."""
    streaming: frozenset[str] = NO_WORDS
    """Operations whose response is always a stream."""
    stream_type: str = "text/event-stream; charset=utf-8"
    generating: frozenset[str] = NO_WORDS
    """Operations beside `refusals` whose responses a model writes."""
    model_in_path: re.Pattern[str] | None = None
    """Finds the model in the request path."""
    stored_prompt: re.Pattern[str] | None = None
    """Finds the name of a stored prompt that stands in place of a model."""
    independent: frozenset[str] = NO_WORDS
    """Operations whose texts no model reads in sequence."""
    instructions: Mapping[str, AddInstruction] = field(default_factory=dict)
    """By operation: how an instruction is added to its body."""
    signed: bool = False
    """Whether clients sign the body, so that it must never be changed."""

    def stream_error(self, error: RequestError) -> bytes:
        """The error as the last part of a stream."""
        return self.error_chunk(error) if self.error_chunk else self.error_event + data(self.error_body(error))

    def shape(self, operation: str) -> Shape:
        """Where this operation's body has its turns."""
        return self.shapes.get(operation, self.default_shape)


def data(value: Json) -> bytes:
    """An event of a stream without a name."""
    return b"data: " + json.dumps(value) + b"\n\n"


def event(name: str, fields: Mapping[str, Any]) -> bytes:
    """A named event, whose type is its name."""
    return f"event: {name}\n".encode() + data({"type": name, **fields})
