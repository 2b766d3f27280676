"""Undoes the compression of an answer while it streams, a bounded piece at a time."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from sidecar.replies.events import Unreadable

PIECE = 64 * 1024
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def is_known(coding: str) -> bool:
    """Whether `decoded` can undo this content coding; the empty one is none at all."""
    return coding.strip().lower() in {"", "identity", *_WINDOW_BITS}


async def decoded(chunks: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
    """The plain bytes, at most `PIECE` at a time. Raises `Unreadable` for what is not so coded, or cut off."""
    bits = _WINDOW_BITS.get(coding.strip().lower())
    if bits is None:
        async for chunk in chunks:
            yield chunk
        return
    stream, begun = zlib.decompressobj(bits), False
    async for chunk in chunks:
        begun, plain, waiting = True, b"more", chunk
        while waiting or len(plain) == PIECE:
            plain = _inflated(stream, waiting)
            waiting = stream.unconsumed_tail
            if plain:
                yield plain
    if begun and not stream.eof:
        raise Unreadable


def _inflated(stream: zlib._Decompress, data: bytes) -> bytes:
    try:
        plain = stream.decompress(data, PIECE)
    except zlib.error:
        raise Unreadable from None
    if stream.unused_data:
        raise Unreadable
    return plain
