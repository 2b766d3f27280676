"""A normalized text (a *view*): the text as a reader or a model would see it, mapped back to the original offsets.

It is built either per character from a table (`translate`), or of replacements: spans of its parent that were replaced,
kept in place within the surrounding text (`assemble`). Text far from any replacement is left out, so that the work on a
view is bounded by what was hidden. The mapping to the original is computed for hits only.

Invariant: `locate` returns a span of the original that contains all characters the given span was derived from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

CONTEXT = 120
"""Code points kept on each side of a replacement; patterns across its edge need no more."""

SLICE = 4_096
"""Code points translated at once: other threads run in between, and offsets are mapped within one slice."""
BLOCK, BLOCK_OVERLAP = 512, 32
"""Code points examined together for a feature, and how many of the next block with them."""
ELISION = " …\n… "
"""Stands for text that a view leaves out: never the beginning of a line."""

TRANSPORTS = frozenset({"base64", "entities", "escapes", "quoted"})
"""Steps that undo what mails, web pages, JSON and interfaces do to any text: using them hides nothing."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class NormalizedText:
    """One view of a text. `path` names the steps that led to it; the original has none.

    `replaced`: where in `text` the last step put something in the place of the parent's text.
    """

    text: str
    path: tuple[str, ...] = ()
    hidden: bool = False
    parent: NormalizedText | None = None
    origin: Callable[[int, int], Span] | None = field(default=None, repr=False)
    replaced: tuple[Span, ...] = ()

    @property
    def name(self) -> str:
        """`raw`, or the joined steps: `unhidden+base64`."""
        return "+".join(self.path) or "raw"

    @property
    def kinds(self) -> frozenset[str]:
        """The names by which rules select it: its steps, and one of `raw`, `folded`, `hidden`."""
        kind = "hidden" if self.hidden else "folded" if self.path else "raw"
        return frozenset((*self.path, kind))

    @property
    def is_disguise(self) -> bool:
        """Whether it shows what was hidden on purpose, not only encoded for transport, once."""
        return self.hidden and self.name not in TRANSPORTS

    def locate(self, start: int, end: int) -> Span:
        """Where `text[start:end]` lies in the original: the smallest span known to contain it."""
        if self.parent is None:
            return start, end
        return self.parent.locate(*(self.origin(start, end) if self.origin else (start, end)))


class Replacement(NamedTuple):
    """`text` replaces `parent.text[start:end]`."""

    start: int
    end: int
    text: str


class _Piece(NamedTuple):
    """From offset `at`, the view shows the parent's `start:end`; `exact` if character by character."""

    at: int
    start: int
    end: int
    exact: bool
    mirrored: bool = False


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

    def mirror(self, text: str, start: int, end: int) -> None:
        """The same in reverse."""
        self.add(text, start, end)
        self.pieces[-1] = self.pieces[-1]._replace(mirrored=True)

    def between(self, text: str, begin: int, end: int, context: int = CONTEXT) -> None:
        """The text between two replacements, or only its ends if they are far apart."""
        if end - begin <= 2 * context:
            self.add(text[begin:end], begin, end)
            return
        if begin:
            self.add(text[begin : begin + context], begin, begin + context)
            self.add("\n", end - context, end - context, exact=False)
        self.add(text[end - context : end], end - context, end)

    def origin(self, start: int, end: int) -> Span:
        first, last = self._place(start), self._place(max(start, end - 1))
        return min(first[0], last[0]), max(first[1], last[1])

    def _place(self, offset: int) -> Span:
        piece = self.pieces[max(0, bisect_right(self.pieces, offset, key=lambda p: p.at) - 1)]
        if not piece.exact:
            return piece.start, piece.end
        place = piece.end - 1 - (offset - piece.at) if piece.mirrored else piece.start + offset - piece.at
        return place, place + 1


def assemble(
    parent: NormalizedText, step: str, replacements: Iterable[Replacement], *, hidden: bool, context: int = CONTEXT
) -> NormalizedText | None:
    """The view with these replacements (in order, disjoint) and what surrounds them; None if there are none."""
    builder, last, replaced = _Builder(), 0, list[Span]()
    for replacement in replacements:
        builder.between(parent.text, last, replacement.start, context)
        replaced.append((builder.length, builder.length + len(replacement.text)))
        builder.add(replacement.text, replacement.start, replacement.end, exact=False)
        last = replacement.end
    if not last:
        return None
    tail = min(len(parent.text), last + context)
    builder.add(parent.text[last:tail], last, tail)
    text, path = "".join(builder.parts), (*parent.path, step)
    return NormalizedText(text, path, hidden or parent.hidden, parent, builder.origin, tuple(replaced))


def translate(
    parent: NormalizedText,
    step: str,
    table: Mapping[int, str | int | None],
    *,
    hidden: bool,
    places: Sequence[Span] | None = None,
) -> NormalizedText | None:
    """The view in which every character is replaced by the table; None if that changes nothing.

    Of the whole text, or of these `places` (in order, disjoint) only.
    """
    builder = _TranslationBuilder(table)
    for start, end in [(0, len(parent.text))] if places is None else places:
        builder.add(parent.text, start, end)
    if not builder.changed:
        return None
    return NormalizedText(
        "".join(builder.parts), (*parent.path, step), hidden or parent.hidden, parent, builder.origin(parent)
    )


class _TranslationBuilder:
    """Collects the places of a view in which characters are replaced."""

    def __init__(self, table: Mapping[int, str | int | None]) -> None:
        self.parts: list[str] = []
        self.changed = False
        self._table = table
        self._slices: list[_Piece] = []
        self._length = self._last = 0

    def add(self, whole: str, start: int, end: int) -> None:
        if start != self._last:
            self._put(ELISION, _Piece(self._length, start, start, exact=False))
        for at in range(start, end, SLICE):
            piece = whole[at : min(at + SLICE, end)]
            translated = piece.translate(self._table)
            self.changed = self.changed or translated != piece
            self._put(translated, _Piece(self._length, at, at + len(piece), exact=True))
        self._last = end

    def _put(self, text: str, piece: _Piece) -> None:
        self._slices.append(piece)
        self.parts.append(text)
        self._length += len(text)

    def origin(self, parent: NormalizedText) -> Callable[[int, int], Span]:
        slices, table = self._slices, self._table

        def place(offset: int) -> Span:
            piece = slices[max(0, bisect_right(slices, offset, key=lambda p: p.at) - 1)]
            if not piece.exact:
                return piece.start, piece.end
            ends = list(accumulate(len(c.translate(table)) for c in parent.text[piece.start : piece.end]))
            at = piece.start + bisect_right(ends, offset - piece.at)
            return min(at, piece.end), min(at + 1, piece.end)

        return lambda start, end: (place(start)[0], max(place(start)[0], place(max(start, end - 1))[1]))


def reverse(parent: NormalizedText, step: str, places: Sequence[Span] | None = None) -> NormalizedText:
    """The text, or these places of it, reversed."""
    builder = _Builder()
    last = len(parent.text)
    for start, end in [(0, last)] if places is None else reversed(places):
        if end != last:
            builder.add(ELISION, end, end, exact=False)
        for at in range(end, start, -SLICE):
            begin = max(start, at - SLICE)
            builder.mirror(parent.text[begin:at][::-1], begin, at)
        last = start
    return NormalizedText("".join(builder.parts), (*parent.path, step), True, parent, builder.origin)


def neighbourhoods(text: str, is_flagged: Callable[[str], object]) -> list[Span]:
    """The flagged spans of a text and their surroundings: at least `BLOCK` code points.

    All of a short text, and of one that is flagged nearly everywhere; nothing if nothing is.
    """
    flags = [bool(is_flagged(text[start : start + BLOCK + BLOCK_OVERLAP])) for start in range(0, len(text), BLOCK)]
    return expand_blocks(text, flags)


def expand_blocks(text: str, flags: Sequence[bool]) -> list[Span]:
    """The same from flags per block."""
    if not any(flags):
        return []
    selected = [any(flags[max(0, at - 1) : at + 2]) for at in range(len(flags))]
    if 4 * sum(selected) >= 3 * len(selected):
        return [(0, len(text))]
    spans: list[Span] = []
    for at in (number * BLOCK for number, is_selected in enumerate(selected) if is_selected):
        end = min(at + BLOCK, len(text))
        if spans and spans[-1][1] == at:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((at, end))
    return spans
