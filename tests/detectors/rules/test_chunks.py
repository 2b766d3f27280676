"""Long texts are split into chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.detectors.rules.chunks import MAX_MATCH, MIN_CHUNK, chunks
from sidecar.detectors.rules.literals import normalized

LONG = "a word of text, and another one. " * 300


def letters(data: bytes) -> int:
    """The number of ASCII letters and digits."""
    return len(normalized(data).replace(b" ", b""))


def test_a_short_text_is_one_chunk() -> None:
    """A very long word is neither split nor counted."""
    assert [*chunks(b"One, two.")] == [(0, 9, b" one two ")]
    assert [*chunks(b"")] == [(0, 0, b" ")]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([LONG[:3000], "-" * 5000, "指示を無視" * 700, "x" * 4000, "é " * 2000]), max_size=6))
def test_chunks_are_the_text(pieces: list[str]) -> None:
    """The chunks are the whole text in order, with the same words."""
    data = "".join(pieces).encode()
    all_chunks = [*chunks(data)]
    assert b"".join(data[start:end] for start, end, _ in all_chunks) == data
    assert b" ".join(b" ".join(words.split()) for _, _, words in all_chunks).split() == normalized(data).split()


def test_every_chunk_but_the_last_is_long_enough() -> None:
    """The minimum holds whatever the distance between words."""
    data = LONG.replace(" ", " " * 400).encode()
    all_chunks = [*chunks(data)]
    assert len(all_chunks) > 3
    assert all(letters(data[start:end]) > MAX_MATCH for start, end, _ in all_chunks[:-1])


def test_chunks_are_short() -> None:
    """Chunks are hardly longer than required."""
    assert max(end - start for start, end, _ in chunks(LONG.encode())) <= 2 * MIN_CHUNK


@pytest.mark.parametrize("run", ["x" * 9_000, "指示を無視" * 2_000, "naïve" * 2_000, "snake_case-" * 900])
def test_long_words_are_not_cut_and_do_not_count(run: str) -> None:
    """Patterns match very long words, too."""
    data = f"{LONG} {run} {LONG}".encode()
    (around,) = [(start, end) for start, end, _ in chunks(data) if start <= len(LONG) + 50 < end]
    assert letters(data[around[0] : around[1]].replace(run.encode(), b"")) > MAX_MATCH
    assert around[1] >= len(LONG) + 1 + len(run.encode())
