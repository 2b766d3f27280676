"""Cuts a text into overlapping windows of tokens, whole and bounded, and groups windows into batches.

The text is tokenised in stretches, so that a text over the budget is refused after reading the budget
and not after reading everything. Words that the tokenizer would swallow as one unknown token (over 100
characters without a space, as in Thai or in an encoded payload) are cut, not skipped. Offsets count
code points of the text, so that a finding can say where it lies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tokenizers import Regex, Tokenizer, pre_tokenizers

from sidecar.errors import LayerError

STRETCH = 8192
"""Characters tokenised at once."""
_WORD = 64


@dataclass(frozen=True, slots=True)
class Window:
    """Token ids without special tokens, and the stretch of the text (code points) that they stand for."""

    ids: tuple[int, ...]
    start: int
    end: int
    text: str
    pieces: tuple[tuple[int, ...], ...] = ()
    """The same stretch in the tokens of a glance, if the model has one: in each way that it reads it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How windows are cut: tokens in a window, tokens shared by neighbours, windows at most, characters of its tokens.

    Characters are bounded because one unknown token may stand for many of them, and a glance, which may know them, pays
    for each. What stands between tokens (white space, marks that the tokenizer drops) is not counted.
    """

    size: int = 126
    overlap: int = 32
    most: int = 256
    characters: int = 1024

    @property
    def tokens(self) -> int:
        """The longest text, in tokens, that fits the budget of windows."""
        return self.overlap + self.most * (self.size - self.overlap) if self.most > 0 else 0


def prepared(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer without truncation and padding, and with endless words cut. Changes it in place."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pieces = pre_tokenizers.Split(Regex(f".{{1,{_WORD}}}"), "isolated")
    before = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = pieces if before is None else pre_tokenizers.Sequence([before, pieces])
    return tokenizer


def windows(tokenizer: Tokenizer, text: str, cut: Cut) -> list[Window]:
    """All windows of the text, first to last; none if it holds no token.

    Raises `LayerError("too_long")` if the text needs more windows than `cut.most`.
    """
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    for start, stretch in _stretches(text):
        encoded = tokenizer.encode(stretch, add_special_tokens=False)
        ids.extend(encoded.ids)
        offsets.extend((start + first, start + last) for first, last in encoded.offsets)
        if len(ids) > cut.tokens:
            raise _too_long(cut)
    found = [_window(text, ids[at:end], offsets[at:end]) for at, end in _ranges(offsets, cut)]
    if len(found) > cut.most:
        raise _too_long(cut)
    return found


def batches(windows: Sequence[Window], tokens: int) -> Iterator[list[int]]:
    """Indices of windows, short ones together, each batch at most `tokens` long once padded; a longer one is alone."""
    batch: list[int] = []
    for index in sorted(range(len(windows)), key=lambda i: _length(windows[i])):
        longest = _length(windows[index]) + 2
        if batch and (len(batch) + 1) * longest > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _length(window: Window) -> int:
    return max(len(window.ids), sum(map(len, window.pieces)))


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
        at = max(at + 1, end - min(cut.overlap, (end - at) // 2))


def _too_long(cut: Cut) -> LayerError:
    return LayerError("too_long", f"the text needs more than {cut.most} windows of {cut.size} tokens")


def _stretches(text: str) -> Iterator[tuple[int, str]]:
    """The text in pieces of at most `STRETCH` characters, cut at white space where there is some."""
    start = 0
    while start < len(text):
        end = min(start + STRETCH, len(text))
        if end < len(text):
            end = _space_before(text, start, end)
        yield start, text[start:end]
        start = end


def _space_before(text: str, start: int, end: int) -> int:
    for at in range(end, max(start, end - 128), -1):
        if text[at - 1].isspace():
            return at
    return end
