"""Streaming decompression of a response body, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sidecar.response_scan.sse import Unreadable
from sidecar.util import codings

PIECE = 64 * 1024


def is_known(coding: str) -> bool:
    """Whether `decoded` supports this content coding; the empty one means uncompressed."""
    return coding.strip().lower() in {"", "identity"} or codings.decoder(coding) is not None


async def decoded(chunks: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
    """Yields the decompressed bytes, about `PIECE` at a time.

    Raises `Unreadable` for data that is corrupt or truncated.
    """
    stream = codings.decoder(coding)
    if stream is None:
        async for chunk in chunks:
            yield chunk
        return
    started = False
    try:
        async for chunk in chunks:
            started, waiting = True, chunk
            while waiting or stream.pending:
                if plain := stream.decompress(waiting, PIECE):
                    yield plain
                waiting = b""
    except codings.CodingError:
        raise Unreadable from None
    if started and not stream.finished:
        raise Unreadable
