"""Twin of sidecar/util/codings.py."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.util.codings import KNOWN, Damaged, decoder, zstd

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
ROUGHLY = 64 * 1024
"""What one piece is at most: br rounds up."""


def undone(coding: str, packed: bytes, cut: int, most: int) -> tuple[list[bytes], bool]:
    """All pieces, with the bytes coming so many at a time, and whether the end was met."""
    made, found = decoder(coding), []
    assert made is not None
    for start in range(0, len(packed), cut):
        found.append(made.piece(packed[start : start + cut], most))
        while made.more:
            found.append(made.piece(b"", most))
    return found, made.ended


def test_every_known_coding_is_undone() -> None:
    """In any case of its name; what is no one coding of ours is not known."""
    assert set(PACK) == set(KNOWN)
    assert all(decoder(f" {coding.upper()}") for coding in KNOWN)
    assert [name for name in ("", "identity", "gzip, br", "compress", "*") if decoder(name)] == []


@pytest.mark.parametrize("coding", KNOWN)
@given(st.binary(max_size=3000), st.integers(1, 400), st.integers(1, 5000))
def test_every_cut_gives_the_same_bytes(coding: str, plain: bytes, cut: int, most: int) -> None:
    """However the bytes come and however few are wanted at once."""
    found, ended = undone(coding, PACK[coding](plain * 7), cut, most)
    assert (b"".join(found), ended) == (plain * 7, True)


@pytest.mark.parametrize("coding", KNOWN)
def test_a_bomb_comes_in_pieces(coding: str) -> None:
    """Fifty megabytes of blanks are never there at once."""
    made = decoder(coding)
    assert made is not None
    first = made.piece(PACK[coding](b" " * 50_000_000), 1000)
    assert 0 < len(first) <= ROUGHLY
    assert made.more


@pytest.mark.parametrize("coding", KNOWN)
def test_what_is_damaged_or_goes_on_is_refused(coding: str) -> None:
    """No stream at all, and one with something behind it; a cut one has no end."""
    packed = PACK[coding](b'{"prompt":"hello"}' * 9)
    for broken in (b"no stream at all, but text", packed + b"x", packed + packed):
        with pytest.raises(Damaged):
            undone(coding, broken, len(broken), 10**6)
    assert not undone(coding, packed[:-1], len(packed), 10**6)[1]


def test_a_window_beyond_what_http_allows_is_refused() -> None:
    """A frame of zstd may ask for gigabytes of memory before a byte comes out."""
    wide = zstd.compress(bytes(range(256)) * 40_000, options={zstd.CompressionParameter.window_log: 27})
    with pytest.raises(Damaged):
        undone("zstd", wide, len(wide), 1000)
