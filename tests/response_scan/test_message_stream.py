"""Twin of sidecar/response_scan/message_stream.py: messages whatever the chunks, and the texts in them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from sidecar.errors import UpstreamError
from sidecar.response_scan.message_stream import parse_message, split_messages, whole_messages
from sidecar.response_scan.sse import Unreadable
from sidecar.util.aws_event_stream import encode


def message(kind: str, payload: object) -> bytes:
    """A message as Bedrock sends it."""
    return encode({":event-type": kind, ":message-type": "event"}, json.dumps(payload).encode())


def chunk(event: object) -> bytes:
    """An event of the model's own API."""
    return message("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abcdef"})


MESSAGES = [message("messageStart", {"role": "assistant"}), message("metadata", {"x": "y" * 99})]


async def _pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def collect(parts: AsyncIterator[bytes]) -> list[bytes]:
    """All parts."""
    return [part async for part in parts]


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_messages_are_whole_whatever_the_chunks(size: int) -> None:
    """The same bytes; what follows the last message comes at the end."""
    data = b"".join(MESSAGES) + b"\x00\x00"
    parts = await collect(whole_messages(_pieces(data, size), 10_000))
    assert b"".join(parts) == data
    assert [raw for part in parts[:-1] for raw in split_messages(part)] == MESSAGES
    assert list(split_messages(data)) == [*MESSAGES, b"\x00\x00"]


@pytest.mark.parametrize(("data", "limit"), [(b"\x01" * 40, 10_000), (MESSAGES[1], 50)])
async def test_what_cannot_be_split_is_an_error_where_it_is_scanned(data: bytes, limit: int) -> None:
    """Else it passes as it comes."""
    with pytest.raises(UpstreamError):
        await collect(whole_messages(_pieces(data, 20), limit))
    assert b"".join(await collect(whole_messages(_pieces(b"\x01" * 40, 20)))) == b"\x01" * 40


def texts(raw: bytes) -> Sequence[tuple[str, str]]:
    """Text and channel of every piece."""
    return [(piece.text, piece.channel) for piece in parse_message(raw).pieces]


def test_a_delta_is_a_piece_of_the_text_of_its_block() -> None:
    """Blocks are apart, the padding is no text, the last message is known."""
    first = message("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hel"}, "p": "abc"})
    other = message("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"a'}}})
    ((text, channel),), ((_, other_channel),) = texts(first), texts(other)
    assert text == "Hel"
    assert channel
    assert channel != other_channel
    assert parse_message(MESSAGES[1]).last
    assert not parse_message(first).last


def test_a_models_own_event_is_read() -> None:
    """Anthropic's by its types; of others every text is a piece of a longer one."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}
    ((text, channel),) = texts(chunk(delta))
    assert text == "Hel"
    assert channel
    ((text, channel),) = texts(chunk({"generation": "Hel"}))
    assert text == "Hel"
    assert channel


@pytest.mark.parametrize(
    "raw",
    [
        MESSAGES[0][:-1],
        message("messageStart", ["no object"]),
        encode({":event-type": "messageStart"}, b"{"),
        message("chunk", {"bytes": "no base64!"}),
        message("chunk", {"bytes": base64.b64encode(b"{").decode()}),
    ],
)
def test_what_a_client_could_not_read_is_unreadable(raw: bytes) -> None:
    """A damaged message, or a payload that is not JSON."""
    with pytest.raises(Unreadable):
        parse_message(raw)
