"""How the body of a response divides into texts: the events of a stream by its content type, or one JSON document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import NamedTuple

from sidecar.extraction.json_body import JsonValue
from sidecar.protocols.bedrock import STREAM_TYPE
from sidecar.response_scan.extraction import Piece, pieces, stream_pieces
from sidecar.response_scan.message_stream import parse_message, split_messages, whole_messages
from sidecar.response_scan.sse import Event, Unreadable, load_json, parse_event, split_events, whole_events
from sidecar.server.body import THREAD_BYTES

MAX_TEXTS = 50_000
"""Texts in one response; one with more was not written by a model and follows `failure.answer`."""


class Framing(NamedTuple):
    """How the body of a stream divides into events."""

    whole: Callable[[AsyncIterator[bytes], int], AsyncIterator[bytes]]
    split: Callable[[bytes], Iterator[bytes]]
    parse: Callable[[bytes], Event]


FRAMINGS = {
    "text/event-stream": Framing(whole_events, split_events, parse_event),
    STREAM_TYPE: Framing(whole_messages, split_messages, parse_message),
}
"""By content type; a stream of another one cannot be scanned."""


async def parse_body(plain: bytes) -> tuple[JsonValue, list[Piece]]:
    """The document and its texts; a large body is parsed in a thread. Raises `Unreadable`.

    A list is the chunks of a stream, as Google sends them without server-sent events.
    """

    def read_all() -> tuple[JsonValue, list[Piece]]:
        document = load_json(plain)
        texts = stream_pieces(document) if isinstance(document, list) else pieces(document)
        if len(texts) > MAX_TEXTS:
            raise Unreadable
        return document, texts

    return await asyncio.to_thread(read_all) if len(plain) > THREAD_BYTES else read_all()
