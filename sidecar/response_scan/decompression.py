"""Undoes the compression of an answer while it streams, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sidecar.response_scan.sse import Unreadable
from sidecar.util import codings

PIECE = 64 * 1024


def is_known(coding: str) -> bool:
    """Whether `decoded` can undo this content coding; the empty one is none at all."""
    return coding.strip().lower() in {"", "identity"} or codings.decoder(coding) is not None


async def decoded(chunks: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
    """The plain bytes, about `PIECE` at a time. Raises `Unreadable` for what is not so coded, or cut off."""
    stream = codings.decoder(coding)
    if stream is None:
        async for chunk in chunks:
            yield chunk
        return
    begun = False
    try:
        async for chunk in chunks:
            begun, waiting = True, chunk
            while waiting or stream.pending:
                if plain := stream.decompress(waiting, PIECE):
                    yield plain
                waiting = b""
    except codings.CodingError:
        raise Unreadable from None
    if begun and not stream.finished:
        raise Unreadable
