"""Messages of AWS's event stream (`application/vnd.amazon.eventstream`): one message as bytes, and back.

From the specification of Smithy 2.0 (`amazon-eventstream`): prelude of two lengths and their CRC32, headers, payload,
CRC32 of all before it. Big-endian. Values of headers have types; those other than strings are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from zlib import crc32

PRELUDE = 12
"""Bytes from which the length of a message is known."""
_LEAST = PRELUDE + 4
MAX_MESSAGE = 24 * 1024 * 1024
"""Bytes of the longest message that the specification allows, rounded up."""
_BYTES, _STRING = 6, 7
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, _BYTES: None, _STRING: None, 8: 8, 9: 16}
"""Bytes of a header's value by its type; None if it begins with its length."""


class MalformedMessage(ValueError):
    """The bytes are no message of an event stream."""


def message_length(prelude: bytes) -> int:
    """The length of the message that begins with this prelude. Raises `MalformedMessage`."""
    total, headers, checksum = struct.unpack_from(">III", prelude)
    if checksum != crc32(prelude[:8]) or not _LEAST + headers <= total <= MAX_MESSAGE:
        raise MalformedMessage("prelude")
    return int(total)


def encode(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message."""
    fields = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    lengths = struct.pack(">II", _LEAST + len(fields) + len(payload), len(fields))
    body = lengths + struct.pack(">I", crc32(lengths)) + fields + payload
    return body + struct.pack(">I", crc32(body))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(">B", len(name)) + name + struct.pack(">BH", _STRING, len(value)) + value


def decode(message: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and payload of exactly one message. Raises `MalformedMessage`, also for a header given twice."""
    if len(message) < _LEAST or message_length(message) != len(message):
        raise MalformedMessage("length")
    if struct.unpack_from(">I", message, len(message) - 4)[0] != crc32(message[:-4]):
        raise MalformedMessage("checksum")
    end = PRELUDE + struct.unpack_from(">I", message, 4)[0]
    try:
        return _headers(message[PRELUDE:end]), message[end:-4]
    except (struct.error, IndexError, UnicodeDecodeError):
        raise MalformedMessage("headers") from None


def _headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    while at < len(data):
        name, at = _take(data, at + 1, data[at])
        kind, at = data[at], at + 1
        if kind not in _SIZES:
            raise MalformedMessage("headers")
        size = _SIZES[kind]
        if size is None:
            size, at = struct.unpack_from(">H", data, at)[0], at + 2
        value, at = _take(data, at, size)
        if name.decode() in headers:
            raise MalformedMessage("headers")
        headers[name.decode()] = value.decode() if kind == _STRING else ""
    return headers


def _take(data: bytes, start: int, size: int) -> tuple[bytes, int]:
    if start + size > len(data):
        raise IndexError
    return data[start : start + size], start + size
