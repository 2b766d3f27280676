"""Twin of sidecar/util/aws_event_stream.py; botocore's reader is the reference in proxy/test_sdk_bedrock.py."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.util.aws_event_stream import MalformedMessage, decode, encode, message_length

NAMES = st.text(min_size=1, max_size=20)


@given(st.dictionaries(NAMES, st.text(max_size=200), max_size=4), st.binary(max_size=300))
def test_what_is_written_is_read(headers: dict[str, str], payload: bytes) -> None:
    """Headers and payload, and the length that the first bytes state."""
    message = encode(headers, payload)
    assert decode(message) == (headers, payload)
    assert message_length(message[:12]) == len(message)


@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    """Wherever it is: both checksums are compared."""
    message = bytearray(encode({":event-type": "chunk"}, b"{}"))
    message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedMessage):
        decode(bytes(message))


def framed(fields: bytes) -> bytes:
    """A message with these bytes as headers and right checksums."""
    lengths = struct.pack(">II", 16 + len(fields), len(fields))
    body = lengths + struct.pack(">I", crc32(lengths)) + fields
    return body + struct.pack(">I", crc32(body))


def test_headers_of_other_types_are_skipped() -> None:
    """A time, a number, bytes: their lengths are known."""
    fields = b"\x01a\x08" + bytes(8) + b"\x01b\x04" + bytes(4) + b"\x01c\x06\x00\x02xy" + b"\x01d\x07\x00\x01z"
    assert decode(framed(fields)) == ({"a": "", "b": "", "c": "", "d": "z"}, b"")


@pytest.mark.parametrize(
    "fields",
    [
        b"\x09a",
        b"\x01a\x07\x00\x09z",
        b"\x01a\x0c",
        b"\x01a\x0c\x00\x01z",
        b"\x01a\x07\x00\x01\xff",
        b"\x01a\x00\x01a\x00",
    ],
)
def test_headers_that_cannot_be_read_are_an_error(fields: bytes) -> None:
    """Cut off, of an unknown type, not UTF-8, or given twice."""
    with pytest.raises(MalformedMessage):
        decode(framed(fields))


@pytest.mark.parametrize("data", [b"", b"\x00" * 12, encode({}, b"")[:-1], encode({}, b"") + b"\x00"])
def test_what_is_not_exactly_one_message_is_an_error(data: bytes) -> None:
    """Too short, too long, or no message."""
    with pytest.raises(MalformedMessage):
        decode(data)
