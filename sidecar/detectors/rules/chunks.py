"""Splits long text into chunks sized so that a match spans at most two adjacent chunks.

Neither the distance between words nor the length of a word is bounded. Chunks are therefore measured in ASCII letters
and digits, not counting very long words: of these a pattern's match has a bound (`sidecar.detectors.rules.fragments`).
A chunk ends after white space or punctuation, never inside a word.

Invariant: the chunks partition the text, and each but the last holds more than `MAX_MATCH` counted characters, so a
match of at most `MAX_MATCH` touches at most two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import re2

from sidecar.detectors.rules.fragments import MAX_WORD
from sidecar.detectors.rules.literals import normalized

MAX_MATCH = 800
"""Maximum ASCII letters and digits in a match for the pattern to be searched in pairs of chunks only."""
MIN_CHUNK = 1_200
"""Bytes after which a chunk may end."""
_BOUNDARY_CHARACTERS = rb"\t\n\f\r !-,./:-@\[-^`{-~"
_BOUNDARY = re.compile(b"[%b]" % _BOUNDARY_CHARACTERS)
"""Found within a word's length and called so often that RE2 would cost more by releasing the GIL each time."""
_LONG_WORD = re2.compile(b"[^%b]{%d,}" % (_BOUNDARY_CHARACTERS, MAX_WORD + 1))


class Chunk(NamedTuple):
    """Start and end in the bytes of the text, and the normal form of its words."""

    start: int
    end: int
    normal_form: bytes


def chunks(data: bytes) -> Iterator[Chunk]:
    """All chunks of the text, in order."""
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
