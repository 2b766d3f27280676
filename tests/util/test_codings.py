"""Twin of sidecar/util/codings.py."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.util.codings import SUPPORTED, CodingError, decoder, zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
MAX_CHUNK = 64 * 1024
"""Upper bound of one chunk: br rounds up."""


def decode_all(coding: str, packed: bytes, step: int, max_length: int) -> tuple[list[bytes], bool]:
    """All output chunks, feeding `step` bytes at a time, and whether the stream finished."""
    stream, chunks = decoder(coding), []
    assert stream is not None
    for start in range(0, len(packed), step):
        chunks.append(stream.decompress(packed[start : start + step], max_length))
        while stream.pending:
            chunks.append(stream.decompress(b"", max_length))
    return chunks, stream.finished


def test_every_supported_coding_has_a_decoder() -> None:
    """Names are case-insensitive; unknown names and lists of codings have no decoder."""
    assert set(COMPRESS) == set(SUPPORTED)
    assert all(decoder(f" {coding.upper()}") for coding in SUPPORTED)
    assert [name for name in ("", "identity", "gzip, br", "compress", "*") if decoder(name)] == []


@pytest.mark.parametrize("coding", SUPPORTED)
@given(st.binary(max_size=3000), st.integers(1, 400), st.integers(1, 5000))
def test_chunk_sizes_do_not_change_the_output(coding: str, plain: bytes, step: int, max_length: int) -> None:
    """Any split of the input and any limit on the output decode to the same bytes."""
    chunks, finished = decode_all(coding, COMPRESS[coding](plain * 7), step, max_length)
    assert (b"".join(chunks), finished) == (plain * 7, True)


@pytest.mark.parametrize("coding", SUPPORTED)
def test_a_bomb_is_decoded_in_bounded_chunks(coding: str) -> None:
    """Fifty megabytes of blanks are never in memory at once."""
    stream = decoder(coding)
    assert stream is not None
    first = stream.decompress(COMPRESS[coding](b" " * 50_000_000), 1000)
    assert 0 < len(first) <= MAX_CHUNK
    assert stream.pending


@pytest.mark.parametrize("coding", SUPPORTED)
def test_invalid_or_trailing_data_is_an_error(coding: str) -> None:
    """Invalid streams and trailing data raise `CodingError`; a truncated stream does not finish."""
    packed = COMPRESS[coding](b'{"prompt":"hello"}' * 9)
    for broken in (b"no stream at all, but text", packed + b"x", packed + packed):
        with pytest.raises(CodingError):
            decode_all(coding, broken, len(broken), 10**6)
    assert not decode_all(coding, packed[:-1], len(packed), 10**6)[1]


def test_a_zstd_window_above_the_http_limit_is_an_error() -> None:
    """A zstd frame may request gigabytes of memory before it yields a byte."""
    wide = zstd.compress(bytes(range(256)) * 40_000, options={zstd.CompressionParameter.window_log: 27})
    with pytest.raises(CodingError):
        decode_all("zstd", wide, len(wide), 1000)
