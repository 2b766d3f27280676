"""Twin of response_scan/decompression.py: what is compressed comes out plain, in bounded pieces, or is refused."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator

import brotli
import pytest

from sidecar.response_scan.decompression import PIECE, decoded, is_known
from sidecar.response_scan.sse import Unreadable
from sidecar.util.codings import SUPPORTED, zstd

TEXT = b"Breakfast is served from six to ten. " * 9000
PACKED = {
    "gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstd.compress(TEXT),
    "": TEXT,
    "identity": TEXT,
}


async def chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    """The bytes in pieces."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("coding", PACKED)
@pytest.mark.parametrize("size", [7, 4096, 10**7])
async def test_every_cut_gives_the_same_plain_bytes(coding: str, size: int) -> None:
    """In pieces that do not grow with how well it was compressed."""
    got = [piece async for piece in decoded(chunks(PACKED[coding], size), coding)]
    assert b"".join(got) == TEXT
    if coding in SUPPORTED:
        assert max(map(len, got)) <= (2 * PIECE if coding == "br" else PIECE)


@pytest.mark.parametrize("data", [b"plain", PACKED["gzip"][:-3], PACKED["gzip"] + b"more"])
async def test_what_is_not_so_coded_is_unreadable(data: bytes) -> None:
    """No gzip, a cut one, and one with something behind it."""
    with pytest.raises(Unreadable):
        [piece async for piece in decoded(chunks(data, 4096), "gzip")]


async def test_nothing_is_nothing() -> None:
    """An empty body of a coded answer."""
    assert [piece async for piece in decoded(chunks(b"", 1), "gzip")] == []


def test_other_codings_are_not_known() -> None:
    """Nor two at once."""
    supported = {
        coding: is_known(coding) for coding in ("gzip", " GZIP", "deflate", "", "br", "zstd", "dcb", "gzip, gzip")
    }
    assert [coding for coding, yes in supported.items() if not yes] == ["dcb", "gzip, gzip"]
