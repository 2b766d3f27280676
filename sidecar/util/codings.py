"""Streaming decoders for HTTP content codings: gzip, deflate, br (RFC 7932) and zstd (RFC 8878).

The output of each call is bounded whatever the compression ratio, so a decompression bomb costs only what is read.
"""

from __future__ import annotations

import sys
import zlib
from typing import Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SUPPORTED = ("gzip", "deflate", "br", "zstd")
"""Codings that clients may send, as named in `Accept-Encoding`."""
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_MAX_WINDOW_LOG = 23
"""Largest zstd window, as log2 of its bytes: the limit of RFC 8878 for HTTP."""


class CodingError(ValueError):
    """The bytes are not valid in their coding, or continue after its end."""


class Decoder(Protocol):
    """A streaming decoder of one coding."""

    @property
    def pending(self) -> bool:
        """Whether more output may be available without more input."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the end of the coded stream was reached."""
        ...

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most about `max_length` bytes (br: less than twice that, plus 32 KiB). Raises `CodingError`."""
        ...


def decoder(coding: str) -> Decoder | None:
    """A decoder for this single coding, or None if it is not supported."""
    name = coding.strip().lower()
    if name in _WINDOW_BITS:
        return _Zlib(_WINDOW_BITS[name])
    if name == "br":
        return _Brotli()
    return _Zstd() if name == "zstd" else None


class _Zlib:
    def __init__(self, bits: int) -> None:
        self._stream = zlib.decompressobj(bits)
        self._full = False

    @property
    def pending(self) -> bool:
        return bool(self._stream.unconsumed_tail) or (self._full and not self._stream.eof)

    @property
    def finished(self) -> bool:
        return self._stream.eof

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            output = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        except zlib.error as error:
            raise CodingError(str(error)) from None
        if self._stream.unused_data:
            raise CodingError("more bytes behind the end")
        self._full = len(output) == max_length
        return output


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._produced = False

    @property
    def pending(self) -> bool:
        return self._produced and not self.finished

    @property
    def finished(self) -> bool:
        return bool(self._stream.is_finished())

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            idle = not data and self.finished
            output = b"" if idle else bytes(self._stream.process(data, output_buffer_limit=max_length))
        except brotli.error as error:
            raise CodingError(str(error)) from None
        self._produced = bool(output)
        return output


class _Zstd:
    def __init__(self) -> None:
        options = {int(zstd.DecompressionParameter.window_log_max): _MAX_WINDOW_LOG}
        self._stream = zstd.ZstdDecompressor(options=options)

    @property
    def pending(self) -> bool:
        return not self._stream.eof and not self._stream.needs_input

    @property
    def finished(self) -> bool:
        return self._stream.eof

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            output = self._stream.decompress(data, max_length) if data or not self.finished else b""
        except (zstd.ZstdError, EOFError) as error:
            raise CodingError(str(error)) from None
        if self._stream.unused_data:
            raise CodingError("more bytes behind the end")
        return output
