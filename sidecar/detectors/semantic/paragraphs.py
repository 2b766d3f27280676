"""Paragraphs and lines of a text, to be scored alone: a short order among other text lowers the score of its window."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MIN_LENGTH, MAX_LENGTH = 30, 1_200
"""Characters of a part that is scored alone. A longer one fills windows of its own."""
MIN_WITH_PARTS = (1_000, 0, 0, 0, 0)
"""Characters by channel of a text whose parts, and those of what is hidden in it, are scored alone: of a user's short
one, such as some subtitles, all counts."""
MAX_WITH_PARTS = 8_192
"""Characters of a text whose parts are scored alone. Of the hundreds in a long document one looks like an order."""
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_LINE = re.compile(r"\n\s*|<!--\s*|\s*-->|</?[A-Za-z][^<>\n]{0,200}>\s*|\"\s*[,:]\s*\"|\\n")
"""A line, an HTML comment, what stands between tags, a field of JSON."""


def has_parts(length: int, channel: int) -> bool:
    """Whether the parts of a text of this length (characters) are scored alone."""
    return MIN_WITH_PARTS[channel] <= length <= MAX_WITH_PARTS


def parts(text: str, start: int, end: int, *, lines: bool) -> Iterator[tuple[int, int]]:
    """The spans of the paragraphs that overlap `text[start:end]`, with `lines` also of their lines.

    Paragraphs end at blank lines. In logs, code, tables and lists a line is what a paragraph is in prose, and in markup
    and JSON on one line an element, a comment or a field.
    """
    paragraphs = dict.fromkeys(_between(_PARAGRAPH, text, start, end))
    yield from paragraphs
    if lines:
        yield from (line for line in _between(_LINE, text, start, end) if line not in paragraphs)


def parts_among(spans: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Those of these spans that overlap `text[start:end]` and have the length of a part."""
    for first, last in spans:
        if first < end and last > start and MIN_LENGTH <= last - first <= MAX_LENGTH:
            yield first, last


def _between(breaks: re.Pattern[str], text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The whole spans between breaks that overlap `text[start:end]`."""
    left, right = max(0, start - MAX_LENGTH), min(len(text), end + MAX_LENGTH)
    first = left
    for gap in (*breaks.finditer(text, left, right), None):
        last = gap.start() if gap else right
        is_whole = (first > left or left == 0) and (gap is not None or right == len(text))
        if is_whole and first < end and last > start and MIN_LENGTH <= last - first <= MAX_LENGTH:
            yield first, last
        first = gap.end() if gap else right
