"""Selects what the judge sees of a request: bounded windows around the suspicious spans, escaped to one line each.

Two guarantees. *Text cannot imitate our structure*: line breaks, brackets, braces and invisible characters are escaped,
so every line that begins with `[` is ours, chat-template tokens are inert, and a forged JSON verdict is not JSON.
*Omissions are known*: `complete` is true if the judge saw the whole request, or at least everything that earlier layers
found suspicious.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sidecar.types import Finding, Label, ScanRequest, Segment

MARGIN = 300
EDGE = 600
MAX_EXPANSION = 2
MAX_WINDOWS = 48
HEADER_COST = 48
"""Cost of showing a part besides its text."""
_STRUCTURAL = frozenset("{}[]<>`")
_NAMED_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`rendered` goes to the judge; `unescaped` is the same text without escapes, to detect quotes of it."""

    rendered: str
    unescaped: str
    complete: bool


def excerpt(request: ScanRequest, prior: Sequence[Finding], budget: int) -> Excerpt:
    """At most `budget` code points of the request, suspicious places first."""
    suspects = sorted((f for f in prior if _suspicious(f)), key=lambda f: -f.score)
    if request.length + HEADER_COST * len(request.segments) <= budget:
        windows = {index: [(0, len(segment.text))] for index, segment in enumerate(request.segments)}
    else:
        windows = _select_windows(request.segments, suspects, budget)
    rendered, is_truncated = _render(request.segments, windows, budget * MAX_EXPANSION)
    unescaped = "\n".join(request.segments[i].text[a:b] for i in sorted(windows) for a, b in windows[i])
    return Excerpt(rendered, unescaped, not is_truncated and _covers(request.segments, windows, suspects))


def escape(text: str) -> str:
    """One line in which brackets, braces, back-ticks and all invisible characters are escaped."""
    return text.translate(_ESCAPES)


class _Escapes(dict[int, str]):
    """Caches the basic multilingual plane, so that escaping costs one look-up per character and bounded memory."""

    def __missing__(self, code: int) -> str:
        value = _escaped(chr(code))
        if code <= 0xFFFF:
            self[code] = value
        return value


_ESCAPES = _Escapes()


def _escaped(char: str) -> str:
    if char in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[char]
    if char in _STRUCTURAL or not char.isprintable() or _selects_variation(char):
        return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
    return char


def _selects_variation(char: str) -> bool:
    """Variation selectors are invisible and can carry a hidden message, though Unicode calls them printable."""
    return char >= "\u180b" and "VARIATION SELECTOR" in unicodedata.name(char, "")


def _suspicious(finding: Finding) -> bool:
    return finding.decides and finding.label is not Label.PII_DETECTED


def _span(finding: Finding, segment: Segment) -> Interval:
    if finding.start is None or finding.end is None:
        return (0, len(segment.text))
    return (finding.start, finding.end)


def _candidate_windows(segments: Sequence[Segment], suspects: Sequence[Finding]) -> Iterator[tuple[int, Interval]]:
    """Windows by importance: around the findings, then both ends of the segments, the latest first."""
    places = {path: index for index, segment in enumerate(segments) for path in segment.paths}
    for finding in suspects[:MAX_WINDOWS]:
        if (index := places.get(finding.path)) is not None:
            start, end = _span(finding, segments[index])
            yield index, (max(0, start - MARGIN), min(len(segments[index].text), end + MARGIN))
    for index in range(len(segments) - 1, max(-1, len(segments) - 1 - MAX_WINDOWS), -1):
        length = len(segments[index].text)
        yield index, (max(0, length - EDGE), length)
        yield index, (0, min(length, EDGE))


def _select_windows(segments: Sequence[Segment], suspects: Sequence[Finding], budget: int) -> dict[int, list[Interval]]:
    """Take each candidate that still fits as a whole."""
    windows: dict[int, list[Interval]] = {}
    remaining = budget
    for index, window in _candidate_windows(segments, suspects):
        current = windows.get(index, [])
        merged = _merge([*current, window])
        cost = _size(merged) - _size(current) + (0 if current else HEADER_COST)
        if cost <= remaining:
            windows[index], remaining = merged, remaining - cost
    return windows


def _merge(intervals: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _size(intervals: Sequence[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def _covers(segments: Sequence[Segment], windows: dict[int, list[Interval]], suspects: Sequence[Finding]) -> bool:
    """Whether everything is shown, or every suspicious span if there are any."""
    if _size([window for intervals in windows.values() for window in intervals]) == sum(len(s.text) for s in segments):
        return True
    places = {path: index for index, segment in enumerate(segments) for path in segment.paths}
    return bool(suspects) and all(
        (index := places.get(f.path)) is not None and _is_covered(_span(f, segments[index]), windows.get(index, []))
        for f in suspects
    )


def _is_covered(span: Interval, windows: Sequence[Interval]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in windows)


def _render(segments: Sequence[Segment], windows: dict[int, list[Interval]], limit: int) -> tuple[str, bool]:
    """The lines for the judge, and whether escapes made them longer than `limit`, so that the rest was cut."""
    lines: list[str] = []
    remaining, is_truncated = limit, False
    for index in sorted(windows):
        segment, position = segments[index], 0
        lines.append(f"[part {index + 1} of {len(segments)}, {segment.source}]")
        for start, end in windows[index]:
            lines += _omission(start - position)
            line = escape(segment.text[start:end])
            lines.append(line[:remaining])
            is_truncated, remaining, position = (
                is_truncated or len(line) > remaining,
                max(0, remaining - len(line)),
                end,
            )
        lines += _omission(len(segment.text) - position)
    return "\n".join(lines), is_truncated


def _omission(characters: int) -> list[str]:
    return [f"[{characters} characters left out]"] if characters > 0 else []
