"""Server-sent events: parsing as a client parses them, and writing them again with replaced texts."""

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
"""Bytes up to which an unscanned event is held until it is complete."""
_END = re.compile(rb"\n\n|\n\r\n|\r\r")
_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_LONGEST_END = 3
_LINE = re.compile(rb"\r\n|\n|\r")
_LAST = frozenset({"message_stop", "message-end", "response.completed", "response.incomplete", "response.failed"})


class Unreadable(ValueError):
    """The data cannot be parsed as a client would parse it."""


@dataclass(slots=True)
class Event:
    """One event as received. `pieces` are its texts; `changed` is set once one of them was replaced."""

    raw: bytes
    document: JsonValue = None
    last: bool = False
    pieces: list[Piece] = field(default_factory=list)
    changed: bool = False

    @property
    def size(self) -> int:
        """Characters of streamed text."""
        return sum(len(piece.text) for piece in self.pieces if piece.channel)

    @property
    def is_keepalive(self) -> bool:
        """Whether it only keeps the connection alive: a comment, or Anthropic's ping."""
        if self.document is None:
            return not self.last and b"data" not in self.raw
        return isinstance(self.document, dict) and self.document.get("type") == "ping" and not self.pieces

    def encode(self) -> bytes:
        """The bytes to send: those received, unless a text was replaced."""
        if not self.changed:
            return self.raw
        other_lines = [line for line in _LINE.split(self.raw) if line and not line.startswith(b"data:")]
        return b"\n".join([*other_lines, b"data: " + dump_json(self.document), b"", b""])


async def whole_events(chunks: AsyncIterator[bytes], max_bytes: int | None = None) -> AsyncIterator[bytes]:
    """The same bytes, split after the end of an event. Data after the last event comes at the end.

    An event of more bytes than `max_bytes` raises `UpstreamError`; if `max_bytes` is None, one over `EVENT_BYTES` is
    passed in pieces. An error of `chunks` is raised on, and the incomplete event is dropped.
    """
    buffer = bytearray()
    async for chunk in chunks:
        if not buffer and chunk.endswith(b"\n\n"):  # fast path: a complete event, as nearly all are
            yield chunk
            continue
        # Invariant: `buffer` contains no event end before `searched`.
        searched = max(0, len(buffer) - 3)
        buffer += chunk
        if end := max(_end_of_last(buffer, mark, searched) for mark in _ENDS):
            yield bytes(buffer[:end])
            del buffer[:end]
        if len(buffer) > (max_bytes or EVENT_BYTES):
            if max_bytes:
                raise UpstreamError(f"The upstream sent an event of more than {max_bytes} bytes.")
            yield bytes(buffer[:-_LONGEST_END])  # the tail may be the first half of an event end
            del buffer[:-_LONGEST_END]
    if buffer:
        yield bytes(buffer)


def _end_of_last(buffer: bytearray, mark: bytes, start: int) -> int:
    """The offset after the last `mark` at or after `start`; 0 if there is none."""
    index = buffer.rfind(mark, start)
    return index + len(mark) if index >= 0 else 0


def split_events(data: bytes) -> Iterator[bytes]:
    """Single events of these bytes; an incomplete one comes last."""
    start = 0
    for end in _END.finditer(data):
        yield data[start : end.end()]
        start = end.end()
    if start < len(data):
        yield data[start:]


def parse_event(raw: bytes) -> Event:
    """Parse one event. Raises `Unreadable` for data that is not JSON."""
    lines = _LINE.split(raw.removeprefix(b"\xef\xbb\xbf").strip(b"\r\n"))
    if not all(lines[1:]):  # the client would end the event at an empty line inside
        raise Unreadable
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    if not data.strip() or data.strip() == DONE:
        return Event(raw, last=bool(data.strip()))
    document = load_json(data)
    last = isinstance(document, dict) and document.get("type") in _LAST
    return Event(raw, document, last, pieces(document, stream=True))


def load_json(data: bytes) -> JsonValue:
    """A JSON value, parsed as leniently as clients do: NaN and lone surrogates pass. Raises `Unreadable`."""
    try:
        value: JsonValue = jsons.loads_leniently(data)
    except ValueError:
        raise Unreadable from None
    return value


def dump_json(document: JsonValue) -> bytes:
    """The value as JSON bytes."""
    try:
        return jsons.dumps(document, jsons.LARGE)
    except jsons.EncodeError:
        return json.dumps(document).encode()
