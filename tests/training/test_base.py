"""Twin of training/base.py: a file of the same layout, small enough to be written here."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from training.base import Base, verify

PIECES = ("<s>", "<pad>", "</s>", "<unk>", "\u2581calm")


def four_bits(codes: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], scale: float) -> bytes:
    """Blocks of 32 codes behind their scale: the first half in the low nibbles."""
    blocks = codes.reshape(-1, 32)
    return b"".join(struct.pack("<e", scale) + (block[:16] | (block[16:] << 4)).tobytes() for block in blocks)


def written(path: Path, tensors: dict[str, tuple[int, int, bytes]]) -> Path:
    """A file with these tensors: type, count and bytes of each."""
    texts = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, texts)]).astype(np.uint32)
    head = b"E5S1" + struct.pack("<I7ifi", 1, 32, 1, 1, 64, len(PIECES), 8, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(ends[-1])) + ends.tobytes()
    head += np.arange(len(PIECES), dtype=np.float32).tobytes() + b"".join(texts) + struct.pack("<iI", 1, 3) + b"map"
    size = len(head) + 4 + sum(2 + len(name) + 21 for name in tensors)
    table, body = struct.pack("<i", len(tensors)), b""
    for name, (kind, count, raw) in tensors.items():
        table += (
            struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", kind, count, size + len(body), len(raw))
        )
        body += raw
    path.write_bytes(head + table + body)
    return path


def test_a_file_is_read_as_its_layout_says(tmp_path: Path) -> None:
    """Pieces with their scores, whole numbers and four bits; words also as they are stored."""
    codes = np.arange(5 * 32, dtype=np.uint8) % 16
    norm = np.linspace(-1, 1, 32, dtype=np.float32)
    tensors = {"emb.word": (1, 160, four_bits(codes, 0.5)), "emb.ln.w": (0, 32, norm.tobytes())}
    base = Base(written(tmp_path / "base", tensors))
    assert (base.shape.width, base.shape.vocabulary, base.shape.types) == (32, 5, 2)
    assert (tuple(base.pieces), base.scores.tolist()) == (PIECES, [0, 1, 2, 3, 4])
    assert np.array_equal(base.tensor("emb.ln.w"), norm)
    assert np.array_equal(base.tensor("emb.word"), (codes.astype(np.float32) - 8) * 0.5)
    stored, scales = base.words()
    assert np.array_equal(stored.reshape(-1), codes)
    assert np.array_equal(scales, np.full((5, 1), 0.5, np.float16))


def test_another_file_is_refused(tmp_path: Path) -> None:
    """The error names it."""
    (tmp_path / "other").write_bytes(b"something else altogether")
    with pytest.raises(ValueError, match="other"):
        Base(tmp_path / "other")


def test_only_the_file_of_the_recipe_is_trained_on(tmp_path: Path) -> None:
    """The package comes over the network; another file is refused by name."""
    (tmp_path / "base").write_bytes(b"abc")
    digest = hashlib.sha256(b"abc").hexdigest()
    assert verify(tmp_path / "base", digest) == tmp_path / "base"
    with pytest.raises(ValueError, match="base: is not the file"):
        verify(tmp_path / "base")
