"""What differs between the APIs that the inline proxy serves. Each protocol is one module with one `Protocol`.

A protocol knows its routes, where the texts of its bodies are, its error envelope, how a refusal looks as a regular
response, how a stream ends early, and its keepalive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sidecar.errors import RequestError
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

    def shape(self, operation: str) -> Shape:
        """Where this operation's body has its turns."""
        return self.shapes.get(operation, self.default_shape)


def data(value: Json) -> bytes:
    """An event of a stream without a name."""
    return b"data: " + json.dumps(value) + b"\n\n"


def event(name: str, fields: Mapping[str, Any]) -> bytes:
    """A named event, whose type is its name."""
    return f"event: {name}\n".encode() + data({"type": name, **fields})
