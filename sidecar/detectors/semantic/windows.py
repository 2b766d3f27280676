"""Cuts a text into overlapping windows of tokens, as a stream, and groups windows into batches for the training.

The text is tokenised in stretches, so that the memory taken does not grow with it. Words that the tokenizer would
swallow as one unknown token (over 100 characters without a space, as in Thai or in an encoded payload) are cut, not
skipped. Offsets count code points of the text, so that a finding can say where it lies.
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

STRETCH = 8192
"""Characters tokenised at once."""
ENDLESS = 8
_WORD = 64
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Window:
    """Token ids without special tokens, and the stretch of the text (code points) that they stand for."""

    ids: tuple[int, ...]
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Cut:
    """How windows are cut: tokens in a window, tokens shared by neighbours, characters of its tokens.

    Characters are bounded because one unknown token may stand for many of them. What stands between tokens (white
    space, marks that the tokenizer drops) is not counted.
    """

    size: int = 126
    overlap: int = 32
    characters: int = 1024


def prepared(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer without truncation and padding, and with endless words cut. Changes it in place."""
    from tokenizers import Regex, pre_tokenizers  # noqa: PLC0415 - 4 MB that the shipped model does not need

    tokenizer.no_truncation()
    tokenizer.no_padding()
    pieces = pre_tokenizers.Split(Regex(f".{{1,{_WORD}}}"), "isolated")
    before = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = pieces if before is None else pre_tokenizers.Sequence([before, pieces])
    return tokenizer


def windows(tokenizer: Tokenizer, text: str, cut: Cut) -> list[Window]:
    """All windows of the text, first to last; none if it holds no token."""
    return list(stream(tokenizer, text, cut))


def stream(tokenizer: Tokenizer, text: str, cut: Cut) -> Iterator[Window]:
    """The same one by one: the text is tokenised as far as they are asked for."""
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    for start, stretch in stretches(text, STRETCH):
        encoded = tokenizer.encode(stretch, add_special_tokens=False)
        ids.extend(encoded.ids)
        offsets.extend((start + first, start + last) for first, last in encoded.offsets)
        if start + len(stretch) == len(text):
            break
        ranges = list(_ranges(offsets, cut))[:-1]  # the last one may still grow
        yield from (_window(text, ids[at:end], offsets[at:end]) for at, end in ranges)
        if ranges:
            rest = _next(*ranges[-1], cut)
            del ids[:rest], offsets[:rest]
    for at, end in _ranges(offsets, cut):
        yield _window(text, ids[at:end], offsets[at:end])


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


def _ranges(offsets: Sequence[tuple[int, int]], cut: Cut) -> Iterator[tuple[int, int]]:
    """First token and the one after the last of each window; the last window is as full as the text allows."""
    read = [0, *accumulate(last - first for first, last in offsets)]  # white space between tokens parts no window
    at = end = 0
    while end < len(offsets):
        most = min(at + cut.size, len(offsets))
        end = max(at + 1, bisect_right(read, read[at] + cut.characters, at, most + 1) - 1)
        yield at, end
        at = _next(at, end, cut)


def _next(at: int, end: int, cut: Cut) -> int:
    """Where the window after this one begins."""
    return max(at + 1, end - min(cut.overlap, (end - at) // 2))


def stretches(text: str, length: int) -> Iterator[tuple[int, str]]:
    """The text in pieces of about so many characters, each with its place, cut where there is white space.

    One without any is up to `ENDLESS` times as long.
    """
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + length, start + ENDLESS * length)
        end = space.end() if space else start + ENDLESS * length
        yield start, text[start:end]
        start = end
