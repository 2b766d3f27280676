"""Server-sent events one by one: what a client reads in each, and the same again with other texts in it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from sidecar.errors import UpstreamError
from sidecar.extraction.json_body import JsonValue
from sidecar.response_scan.extraction import Piece, pieces
from sidecar.util import json as jsons

DONE = b"[DONE]"
EVENT_BYTES = 1024 * 1024
"""Bytes of an event up to which it is held until it is whole, where nothing looks at it."""
_END = re.compile(rb"\n\n|\n\r\n|\r\r")
_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_LONGEST_END = 3
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


async def whole_events(chunks: AsyncIterator[bytes], most: int | None = None) -> AsyncIterator[bytes]:
    """The same bytes, cut behind the end of an event. What follows the last event comes at the end.

    An event of more bytes than `most` raises `UpstreamError`; where `most` is None, one over `EVENT_BYTES` passes in
    pieces. Raises whatever `chunks` raises, having swallowed the event that was not complete.
    """
    held = bytearray()
    async for chunk in chunks:
        if not held and chunk.endswith(b"\n\n"):  # whole, as nearly all come
            yield chunk
            continue
        seen = max(0, len(held) - 3)
        held += chunk
        if end := max(_behind(held, mark, seen) for mark in _ENDS):
            yield bytes(held[:end])
            del held[:end]
        if len(held) > (most or EVENT_BYTES):
            if most:
                raise UpstreamError("The upstream sent an event that is too large (answers.body_bytes).")
            yield bytes(held[:-_LONGEST_END])  # what may be half an end is seen with what comes next
            del held[:-_LONGEST_END]
    if held:
        yield bytes(held)


def _behind(held: bytearray, mark: bytes, start: int) -> int:
    """The offset behind the last `mark` at or after `start`; 0 if there is none."""
    found = held.rfind(mark, start)
    return found + len(mark) if found >= 0 else 0


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
        return jsons.dumps(document, jsons.LARGE)
    except jsons.EncodeError:
        return json.dumps(document).encode()
