"""A long text in stretches, so long that what a pattern meets lies in two neighbours at most.

Between words there may be as much as anybody likes, and words may be as long as anybody likes. So stretches are not
counted in characters but in letters and digits of ASCII, without those of very long words: of these a pattern has a
bound (`sidecar.detectors.rules.fragments`). A stretch ends behind a space or a sign, never inside a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import re2

from sidecar.detectors.rules.fragments import LONG_WORD
from sidecar.detectors.rules.literals import normal

NEAR = 800
"""Letters and digits that a pattern meets at most, for it to be searched in two neighbours only."""
STEP = 1_200
"""Bytes after which a stretch may end."""
_ENDS = rb"\t\n\f\r !-,./:-@\[-^`{-~"
_END = re.compile(b"[%b]" % _ENDS)
"""Found within a word's length, so often that RE2 would cost more by letting go of Python's lock each time."""
_LONG_WORD = re2.compile(b"[^%b]{%d,}" % (_ENDS, LONG_WORD + 1))


class Stretch(NamedTuple):
    """From where to where in the text's bytes, and its words in their normal form."""

    start: int
    end: int
    words: bytes


def stretches(data: bytes) -> Iterator[Stretch]:
    """The whole text, piece by piece."""
    if len(data) <= 2 * STEP:
        yield Stretch(0, len(data), normal(data))
        return
    start = at = counted = 0
    words = [b" "]
    has_long_words = _LONG_WORD.search(data) is not None
    while at < len(data):
        found = _END.search(data, at + STEP) if at + 2 * STEP < len(data) else None
        end = found.end() if found else len(data)
        piece = data[at:end]
        words.append(normal(piece)[1:])
        counted += _letters(words[-1])
        if has_long_words:
            counted -= sum(map(_letters, map(normal, _LONG_WORD.findall(piece))))
        at = end
        if counted > NEAR or at == len(data):
            yield Stretch(start, at, b"".join(words))
            start, counted, words = at, 0, [b" "]


def _letters(words: bytes) -> int:
    return len(words) - words.count(b" ")
