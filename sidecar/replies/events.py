"""Server-sent events one by one: what a client reads in each, and the same again with other texts in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sidecar import jsons
from sidecar.bodies.reading import JsonValue
from sidecar.replies.texts import Piece, pieces

DONE = b"[DONE]"
_END = re.compile(rb"\n\n|\n\r\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")
_LAST = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})


class Unreadable(ValueError):
    """What a client may read in this cannot be told."""


@dataclass(slots=True)
class Event:
    """One event as it came. `pieces` are its texts; `changed` once one of them was replaced."""

    raw: bytes
    document: JsonValue = None
    last: bool = False
    pieces: list[Piece] = field(default_factory=list)
    changed: bool = False

    @property
    def size(self) -> int:
        """Characters of running text."""
        return sum(len(piece.text) for piece in self.pieces if piece.channel)

    @property
    def quiet(self) -> bool:
        """Whether it says nothing and keeps a connection alive: a comment, or Anthropic's ping."""
        if self.document is None:
            return not self.last and b"data" not in self.raw
        return isinstance(self.document, dict) and self.document.get("type") == "ping" and not self.pieces

    def written(self) -> bytes:
        """The bytes to send: those that came, unless a text was replaced."""
        if not self.changed:
            return self.raw
        kept = [line for line in _LINE.split(self.raw) if line and not line.startswith(b"data:")]
        return b"\n".join([*kept, b"data: " + dumped(self.document), b"", b""])


def cut(data: bytes) -> Iterator[bytes]:
    """Single events of bytes that end behind one; what does not end is the last."""
    start = 0
    for end in _END.finditer(data):
        yield data[start : end.end()]
        start = end.end()
    if start < len(data):
        yield data[start:]


def read(raw: bytes) -> Event:
    """One event. Raises `Unreadable` for data that is no JSON."""
    lines = _LINE.split(raw.removeprefix(b"\xef\xbb\xbf").strip(b"\r\n"))
    if not all(lines[1:]):  # an empty line inside ends an event for the client and not for us
        raise Unreadable
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    if not data.strip() or data.strip() == DONE:
        return Event(raw, last=bool(data.strip()))
    document = loaded(data)
    last = isinstance(document, dict) and document.get("type") in _LAST
    return Event(raw, document, last, pieces(document, stream=True))


def loaded(data: bytes) -> JsonValue:
    """A JSON value, read as kindly as clients do: NaN and lone surrogates pass. Raises `Unreadable`."""
    try:
        found: JsonValue = jsons.loads(data)
    except jsons.DecodeError:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise Unreadable from None
    return found


def dumped(document: JsonValue) -> bytes:
    """The value as JSON again."""
    try:
        return jsons.dumps(document, jsons.MUCH)
    except jsons.EncodeError:
        return json.dumps(document).encode()
