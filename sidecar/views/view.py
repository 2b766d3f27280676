"""A view: the text as a reader or a model would see it, with the way back to the original offsets.

A view is made either letter by letter from a table (`translated`), or of runs: stretches of its parent
that were replaced, kept in place among the text around them (`assemble`). What lies far from any run is left
out, so that the work done on a view is bounded by what was hidden. The way back is worked out on a hit only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

CONTEXT = 120
"""Code points kept on each side of a run; patterns that straddle its edge need no more."""

SLICE = 65_536
"""Code points translated in one go: other threads get their turn in between."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One reading of a text. `path` names the steps that led to it; the original has none."""

    text: str
    path: tuple[str, ...] = ()
    hidden: bool = False
    parent: View | None = None
    origin: Callable[[int, int], Span] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """`raw`, or the steps joined: `unhidden+base64`."""
        return "+".join(self.path) or "raw"

    @property
    def kinds(self) -> frozenset[str]:
        """The words by which rules ask for it: its steps, and one of `raw`, `folded`, `hidden`."""
        kind = "hidden" if self.hidden else "folded" if self.path else "raw"
        return frozenset((*self.path, kind))

    def locate(self, start: int, end: int) -> Span:
        """Where `text[start:end]` lies in the original: the smallest stretch that is known to hold it."""
        if self.parent is None:
            return start, end
        return self.parent.locate(*(self.origin(start, end) if self.origin else (start, end)))


class Run(NamedTuple):
    """`text` stands for `parent.text[start:end]`."""

    start: int
    end: int
    text: str


class _Piece(NamedTuple):
    """From view offset `at` on, the view shows the parent's `start:end`; `exact` if letter for letter."""

    at: int
    start: int
    end: int
    exact: bool


class _Builder:
    """Collects the pieces of a view."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.pieces: list[_Piece] = []
        self.length = 0

    def add(self, text: str, start: int, end: int, *, exact: bool = True) -> None:
        if text:
            self.pieces.append(_Piece(self.length, start, end, exact))
            self.parts.append(text)
            self.length += len(text)

    def between(self, text: str, begin: int, end: int) -> None:
        """What stands between two runs, or only its ends where they are far apart."""
        if end - begin <= 2 * CONTEXT:
            self.add(text[begin:end], begin, end)
            return
        if begin:
            self.add(text[begin : begin + CONTEXT], begin, begin + CONTEXT)
            self.add("\n", end - CONTEXT, end - CONTEXT, exact=False)
        self.add(text[end - CONTEXT : end], end - CONTEXT, end)

    def origin(self, start: int, end: int) -> Span:
        first, last = self._place(start), self._place(max(start, end - 1))
        return first[0], max(first[1], last[1])

    def _place(self, offset: int) -> Span:
        piece = self.pieces[max(0, bisect_right(self.pieces, offset, key=lambda p: p.at) - 1)]
        if not piece.exact:
            return piece.start, piece.end
        place = piece.start + offset - piece.at
        return place, place + 1


def assemble(parent: View, step: str, runs: Iterable[Run], *, hidden: bool) -> View | None:
    """The view in which the runs (in order, disjoint) are replaced; None if there are none."""
    builder, last = _Builder(), 0
    for run in runs:
        builder.between(parent.text, last, run.start)
        builder.add(run.text, run.start, run.end, exact=False)
        last = run.end
    if not last:
        return None
    tail = min(len(parent.text), last + CONTEXT)
    builder.add(parent.text[last:tail], last, tail)
    return View("".join(builder.parts), (*parent.path, step), hidden or parent.hidden, parent, builder.origin)


def translated(parent: View, step: str, table: Mapping[int, str | int | None], *, hidden: bool) -> View | None:
    """The view in which every letter is replaced by the table; None if that changes nothing."""
    whole = parent.text
    text = "".join(whole[at : at + SLICE].translate(table) for at in range(0, len(whole), SLICE))
    if text == parent.text:
        return None

    def origin(start: int, end: int) -> Span:
        ends = list(accumulate(len(letter.translate(table)) for letter in parent.text))
        return bisect_right(ends, start), min(bisect_right(ends, max(start, end - 1)) + 1, len(parent.text))

    return View(text, (*parent.path, step), hidden or parent.hidden, parent, origin)


def turned(parent: View, step: str) -> View:
    """The text from its end to its beginning."""
    size = len(parent.text)
    return View(parent.text[::-1], (*parent.path, step), True, parent, lambda start, end: (size - end, size - start))
