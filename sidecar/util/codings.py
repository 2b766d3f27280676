"""Undoes content codings of HTTP, a bounded piece at a time: gzip, deflate, br (RFC 7932) and zstd (RFC 8878).

Each piece of what comes out is bounded whatever the compression, so a bomb costs what is read of it and no more.
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

KNOWN = ("gzip", "deflate", "br", "zstd")
"""What clients may send, in the names of `Accept-Encoding`."""
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_LARGEST_WINDOW = 23
"""Binary logarithm of the bytes that a decoder of zstd must keep at most, as RFC 8878 has it for HTTP."""


class Damaged(ValueError):
    """The bytes are not what their coding says, or go on behind its end."""


class Decoder(Protocol):
    """One coding being undone."""

    @property
    def more(self) -> bool:
        """Whether a further piece may come without further bytes."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the coded stream is at its end."""
        ...

    def piece(self, data: bytes, most: int) -> bytes:
        """The next bytes, about `most` at most (br rounds up, to less than twice that and 32 KiB). Raises `Damaged`."""
        ...


def decoder(coding: str) -> Decoder | None:
    """A decoder for this one coding, or None if there is none."""
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
    def more(self) -> bool:
        return bool(self._stream.unconsumed_tail) or (self._full and not self._stream.eof)

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def piece(self, data: bytes, most: int) -> bytes:
        try:
            plain = self._stream.decompress(self._stream.unconsumed_tail + data, most)
        except zlib.error as error:
            raise Damaged(str(error)) from None
        if self._stream.unused_data:
            raise Damaged("more bytes behind the end")
        self._full = len(plain) == most
        return plain


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._some = False

    @property
    def more(self) -> bool:
        return self._some and not self.ended

    @property
    def ended(self) -> bool:
        return bool(self._stream.is_finished())

    def piece(self, data: bytes, most: int) -> bytes:
        try:
            plain = bytes(self._stream.process(data, output_buffer_limit=most)) if data or not self.ended else b""
        except brotli.error as error:
            raise Damaged(str(error)) from None
        self._some = bool(plain)
        return plain


class _Zstd:
    def __init__(self) -> None:
        options = {int(zstd.DecompressionParameter.window_log_max): _LARGEST_WINDOW}
        self._stream = zstd.ZstdDecompressor(options=options)

    @property
    def more(self) -> bool:
        return not self._stream.eof and not self._stream.needs_input

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def piece(self, data: bytes, most: int) -> bytes:
        try:
            plain = self._stream.decompress(data, most) if data or not self.ended else b""
        except (zstd.ZstdError, EOFError) as error:
            raise Damaged(str(error)) from None
        if self._stream.unused_data:
            raise Damaged("more bytes behind the end")
        return plain
