"""Paragraphs of a text, to be scored alone: a short order among ordinary prose lowers the score of its window."""

from __future__ import annotations

import re
from collections.abc import Iterator

MIN_LENGTH, MAX_LENGTH = 30, 1_200
"""Characters of a paragraph that is scored alone. A longer one fills windows of its own."""
MIN_TEXT = 500
"""Characters of a text whose paragraphs are scored alone: of a shorter one, such as two subtitles, all counts."""
_BREAK = re.compile(r"\n[^\S\n]*\n\s*")


def paragraphs(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans of the paragraphs, between blank lines, that overlap `text[start:end]`; none if the text is short."""
    if len(text) < MIN_TEXT:
        return
    left, right = max(0, start - MAX_LENGTH), min(len(text), end + MAX_LENGTH)
    first = left
    for gap in (*_BREAK.finditer(text, left, right), None):
        last = gap.start() if gap else right
        is_whole = (first > left or left == 0) and (gap is not None or right == len(text))
        if is_whole and first < end and last > start and MIN_LENGTH <= last - first <= MAX_LENGTH:
            yield first, last
        first = gap.end() if gap else right
