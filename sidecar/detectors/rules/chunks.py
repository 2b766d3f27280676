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

from sidecar.detectors.rules.fragments import MAX_WORD
from sidecar.detectors.rules.literals import normalized

MAX_MATCH = 800
"""Letters and digits that a pattern meets at most, for it to be searched in two neighbours only."""
MIN_CHUNK = 1_200
"""Bytes after which a stretch may end."""
_BOUNDARY_CHARACTERS = rb"\t\n\f\r !-,./:-@\[-^`{-~"
_BOUNDARY = re.compile(b"[%b]" % _BOUNDARY_CHARACTERS)
"""Found within a word's length, so often that RE2 would cost more by letting go of Python's lock each time."""
_LONG_WORD = re2.compile(b"[^%b]{%d,}" % (_BOUNDARY_CHARACTERS, MAX_WORD + 1))


class Chunk(NamedTuple):
    """From where to where in the text's bytes, and its words in their normal form."""

    start: int
    end: int
    normal_form: bytes


def chunks(data: bytes) -> Iterator[Chunk]:
    """The whole text, piece by piece."""
    if len(data) <= 2 * MIN_CHUNK:
        yield Chunk(0, len(data), normalized(data))
        return
    start = position = letters = 0
    forms = [b" "]
    has_long_words = _LONG_WORD.search(data) is not None
    while position < len(data):
        boundary = _BOUNDARY.search(data, position + MIN_CHUNK) if position + 2 * MIN_CHUNK < len(data) else None
        end = boundary.end() if boundary else len(data)
        piece = data[position:end]
        forms.append(normalized(piece)[1:])
        letters += _letters(forms[-1])
        if has_long_words:
            letters -= sum(map(_letters, map(normalized, _LONG_WORD.findall(piece))))
        position = end
        if letters > MAX_MATCH or position == len(data):
            yield Chunk(start, position, b"".join(forms))
            start, letters, forms = position, 0, [b" "]


def _letters(normal_form: bytes) -> int:
    return len(normal_form) - normal_form.count(b" ")
