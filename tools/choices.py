"""Lines with choices, each of which stands for several texts.

`[[Ignore|Forget]] all [[old|earlier]] rules` stands for the line with the first choice everywhere, and for one line
with each other choice, the other places at their first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

OPENING, SEPARATOR, CLOSING = "[[", "|", "]]"
_CHOICES = re2.compile(r"\[\[(.*?)\]\]")
Slots = dict[tuple[int, int], list[str]]
"""Places of the base text and what else may stand there."""
LOCAL = 0.6
"""Share of the base text up to which a difference counts as one place."""


def expand(line: str) -> Iterator[str]:
    """The texts that a line stands for, the one with all first choices at the head."""
    yield _first(line)
    for match in _CHOICES.finditer(line):
        for choice in match.group(1).split(SEPARATOR)[1:]:
            yield _first(line[: match.start()]) + choice + _first(line[match.end() :])


def _first(line: str) -> str:
    return str(_CHOICES.sub(lambda match: match.group(1).split(SEPARATOR)[0], line))


def joined(base: str | None, texts: Sequence[str], *, expected: bool) -> Iterator[str]:
    """Lines that stand for these texts. `base`: a text that matches, if one is known; without it all stand alone."""
    lines: list[Slots] = []
    alone = [text for text in texts if base is None or (text != base and not _place(base, text, lines))]
    for slots in lines:
        line = _rendered(base or "", slots)
        wanted = [_replaced(base or "", place, choice) for place, choices in slots.items() for choice in choices]
        if sorted(expand(line)) == sorted([base or "", *wanted]):
            yield line
        else:
            alone += wanted
    if expected and base in texts and not lines:
        alone.append(base or "")
    yield from (text for text in alone if list(expand(text)) == [text])


def _place(base: str, text: str, lines: list[Slots]) -> bool:
    """Put the difference into the first line where it has its place to itself; False if it is none."""
    start, end, choice = _difference(base, text)
    if max(end - start, len(choice)) > max(30, LOCAL * len(base)):
        return False
    for slots in lines:
        if (start, end) in slots or all(end <= other[0] or other[1] <= start for other in slots):
            slots.setdefault((start, end), []).append(choice)
            return True
    lines.append({(start, end): [choice]})
    return True


def _difference(base: str, text: str) -> tuple[int, int, str]:
    """The part of the base, whole words, and what the text has instead."""
    shorter = min(len(base), len(text))
    start = next((n for n in range(shorter) if base[n] != text[n]), shorter)
    behind = next((n for n in range(shorter - start) if base[-1 - n] != text[-1 - n]), shorter - start)
    while start and _is_letter(base[start - 1]):
        start -= 1
    while behind and _is_letter(base[-behind]):
        behind -= 1
    return start, len(base) - behind, text[start : len(text) - behind]


def _is_letter(mark: str) -> bool:
    """Of a script that separates its words."""
    return mark.isalnum() and mark < "\u3000"


def _replaced(base: str, place: tuple[int, int], choice: str) -> str:
    return base[: place[0]] + choice + base[place[1] :]


def _rendered(base: str, slots: Slots) -> str:
    parts, position = [], 0
    for (start, end), choices in sorted(slots.items()):
        parts += [base[position:start], OPENING, SEPARATOR.join([base[start:end], *choices]), CLOSING]
        position = end
    return "".join([*parts, base[position:]])
