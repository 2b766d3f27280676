"""Splits a text into overlapping windows of tokens, as a stream, and groups windows into batches for the training.

The text is tokenised in chunks, so that memory does not grow with it. Words that the tokenizer would map to one unknown
token (over 100 characters without a space, as in Thai or in an encoded payload) are split, not skipped. Offsets count
code points of the text, so that a finding can name its place.

Invariant: every token is in at least one window, and neighbours share at most `overlap` tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CHUNK = 8192
"""Characters tokenised at once."""
MAX_CHUNK_FACTOR = 8
_MAX_WORD = 64
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Window:
    """Token ids without special tokens, and the span of the text (code points) that they cover.

    `alone`: a part of the text that is scored without its surroundings on purpose.
    """

    ids: tuple[int, ...]
    start: int
    end: int
    text: str
    alone: bool = False


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Window size: tokens in a window, tokens shared by neighbours, characters of its tokens.

    Characters are bounded because one unknown token may stand for many of them. Text between tokens (white space, marks
    that the tokenizer drops) is not counted.
    """

    size: int = 126
    overlap: int = 32
    characters: int = 1024


def prepare_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """Disable truncation and padding, and split endless words. Changes the tokenizer in place."""
    from tokenizers import Regex, pre_tokenizers  # noqa: PLC0415 - 4 MB that the shipped model does not need

    tokenizer.no_truncation()
    tokenizer.no_padding()
    word_splitter = pre_tokenizers.Split(Regex(f".{{1,{_MAX_WORD}}}"), "isolated")
    previous = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = word_splitter if previous is None else pre_tokenizers.Sequence([previous, word_splitter])
    return tokenizer


def windows(tokenizer: Tokenizer, text: str, spec: WindowSpec) -> list[Window]:
    """All windows of the text, first to last; none if it has no token."""
    return list(iter_windows(tokenizer, text, spec))


def iter_windows(tokenizer: Tokenizer, text: str, spec: WindowSpec) -> Iterator[Window]:
    """The same lazily: the text is tokenised on demand."""
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    for start, chunk in chunks(text, CHUNK):
        encoded = tokenizer.encode(chunk, add_special_tokens=False)
        ids.extend(encoded.ids)
        offsets.extend((start + first, start + last) for first, last in encoded.offsets)
        if start + len(chunk) == len(text):
            break
        ranges = list(_ranges(offsets, spec))[:-1]  # the last one is not complete yet
        yield from (_window(text, ids[token:end], offsets[token:end]) for token, end in ranges)
        if ranges:
            consumed = _next(*ranges[-1], spec)
            del ids[:consumed], offsets[:consumed]
    for token, end in _ranges(offsets, spec):
        yield _window(text, ids[token:end], offsets[token:end])


def batches(windows: Sequence[Window], tokens: int) -> Iterator[list[int]]:
    """Indices of windows, short ones together, each batch at most `tokens` long once padded; a longer one is alone."""
    batch: list[int] = []
    for index in sorted(range(len(windows)), key=lambda i: len(windows[i].ids)):
        longest = len(windows[index].ids) + 2
        if batch and (len(batch) + 1) * longest > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _window(text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> Window:
    start, end = offsets[0][0], offsets[-1][1]
    return Window(tuple(ids), start, end, text[start:end])


def _ranges(offsets: Sequence[tuple[int, int]], spec: WindowSpec) -> Iterator[tuple[int, int]]:
    """First token and one past the last of each window; the last window is as full as the text allows."""
    lengths = [0, *accumulate(last - first for first, last in offsets)]  # white space between tokens does not count
    start = end = 0
    while end < len(offsets):
        limit = min(start + spec.size, len(offsets))
        end = max(start + 1, bisect_right(lengths, lengths[start] + spec.characters, start, limit + 1) - 1)
        yield start, end
        start = _next(start, end, spec)


def _next(start: int, end: int, spec: WindowSpec) -> int:
    """Start of the next window."""
    return max(start + 1, end - min(spec.overlap, (end - start) // 2))


def chunks(text: str, length: int) -> Iterator[tuple[int, str]]:
    """The text in chunks of about `length` characters with their offsets, split at white space.

    A chunk without any is up to `MAX_CHUNK_FACTOR` times as long.
    """
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + length, start + MAX_CHUNK_FACTOR * length)
        end = space.end() if space else start + MAX_CHUNK_FACTOR * length
        yield start, text[start:end]
        start = end
