"""Amazon's event streams: whole messages, and the texts in them, as `sse` has them of server-sent events.

A message of ConverseStream becomes a document with its name as `type`; one of InvokeModelWithResponseStream holds an
event of the model's own API, which is Anthropic's or one without types, whose texts are all pieces of longer ones.
"""

from __future__ import annotations

import binascii
from collections.abc import AsyncIterator, Iterator

from sidecar.errors import UpstreamError
from sidecar.extraction.json_body import JsonValue
from sidecar.response_scan.extraction import pieces
from sidecar.response_scan.sse import Event, Unreadable, load_json
from sidecar.util.aws_event_stream import PRELUDE, MalformedMessage, decode, message_length

MESSAGE_BYTES = 1024 * 1024
"""Bytes up to which an unscanned message is held until it is complete."""
_LAST = frozenset({"metadata"})


async def whole_messages(chunks: AsyncIterator[bytes], max_bytes: int | None = None) -> AsyncIterator[bytes]:
    """The same bytes, split after the end of a message. Data after the last message comes at the end.

    A message of more bytes than `max_bytes`, and one that is malformed, raises `UpstreamError`; if `max_bytes` is None,
    what cannot be held is passed as it comes.
    """
    buffer = bytearray()
    passing = False
    async for chunk in chunks:
        buffer += chunk
        if not passing:
            end, passing = _complete(buffer, max_bytes)
            if end:
                yield bytes(buffer[:end])
                del buffer[:end]
        if passing and buffer:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def _complete(buffer: bytearray, max_bytes: int | None) -> tuple[int, bool]:
    """The end of the last complete message, and whether the rest cannot be split and is passed as it comes."""
    end = 0
    while len(buffer) - end >= PRELUDE:
        try:
            length = message_length(bytes(buffer[end : end + PRELUDE]))
        except MalformedMessage:
            if max_bytes:
                raise UpstreamError("The upstream sent bytes that are no event stream.") from None
            return end, True
        if length > (max_bytes or MESSAGE_BYTES):
            if max_bytes:
                raise UpstreamError(f"The upstream sent a message of more than {max_bytes} bytes.")
            return end, True
        if end + length > len(buffer):
            break
        end += length
    return end, False


def split_messages(data: bytes) -> Iterator[bytes]:
    """Single messages of these bytes; an incomplete one comes last."""
    start = 0
    while len(data) - start >= PRELUDE:
        try:
            end = start + message_length(data[start : start + PRELUDE])
        except MalformedMessage:
            break
        yield data[start:end]
        start = end
    if start < len(data):
        yield data[start:]


def parse_message(raw: bytes) -> Event:
    """Parse one message. Raises `Unreadable` for one that is malformed, or whose payload is not JSON."""
    try:
        headers, payload = decode(raw)
    except MalformedMessage:
        raise Unreadable from None
    kind = headers.get(":event-type") or headers.get(":exception-type") or ""
    document = load_json(payload) if payload else {}
    if not isinstance(document, dict):
        raise Unreadable
    if kind == "chunk" and "bytes" in document:
        return _model_event(raw, document)
    fields: JsonValue = {"type": kind, **{name: value for name, value in document.items() if name != "p"}}  # padding
    return Event(raw, fields, kind in _LAST, pieces(fields, stream=True))


def _model_event(raw: bytes, chunk: dict[str, JsonValue]) -> Event:
    """An event of the model's own API, in base64. Texts beside it in the chunk are read, too."""
    try:
        inner = load_json(binascii.a2b_base64(str(chunk["bytes"]), strict_mode=True))
    except (binascii.Error, ValueError):
        raise Unreadable from None
    texts = pieces(inner, stream=True)
    if not (isinstance(inner, dict) and "type" in inner):
        for piece in texts:
            piece.channel = piece.channel or f"chunk {piece.path}"
    others: JsonValue = {name: value for name, value in chunk.items() if name not in {"bytes", "p"}}
    return Event(raw, inner, False, [*texts, *pieces(others)])
