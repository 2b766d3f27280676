"""Packs short strings of one source and one place into one segment, so that 600 tools cost what their text costs.

A place is an item of a list (`tools.3`), else a field of the body (`metadata`, the strings of `input`). The strings
stand in their order, a line each; `Segment.pieces` holds where each begins and its path, so that a finding names it.
What is said in a turn is not packed: it is a text of its own. What a tool returned as JSON is one text, too, however
long: the semantic layer weighs a finding by how many windows had a chance to be it, and they all had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import inf

from sidecar.extraction.walker import Leaf
from sidecar.types import Segment, Source

SHORT = 400
"""Code points up to which a string is packed: about one window of the semantic model."""
PACK = 1_200
"""Code points from which a pack is full: of what is sent again with one string more only the last pack is new."""


def segments(leaves: Iterable[Leaf]) -> Iterator[Segment]:
    """One segment for each long text and each pack; the same text of the same source is read once."""
    seen: set[tuple[str, Source]] = set()
    fresh = (leaf for leaf in leaves if (key := (leaf.text, leaf.place.source)) not in seen and not seen.add(key))  # type: ignore[func-returns-value]
    for (source, place), group in groupby(fresh, key=_key):
        if place is None:
            yield from (Segment(one.text, source, one.place.path, rules_only=one.rules_only) for one in group)
        else:
            yield from _packs(group, source, inf if _is_result(source, place) else PACK)


def _key(leaf: Leaf) -> tuple[Source, str | None]:
    """Source and place; no place for a text that stands alone."""
    place = _place(leaf.place.path)
    alone = (leaf.prose and leaf.place.turn) or leaf.rules_only
    alone = alone or (len(leaf.text) > SHORT and not _is_result(leaf.place.source, place))
    return leaf.place.source, None if alone else place


def _is_result(source: Source, place: str) -> bool:
    """Whether this is a turn of a third party: it is whole when it is first sent, and nothing is added later."""
    return source is Source.UNTRUSTED and "." in place


def _place(path: str) -> str:
    field, item, *below = path.split(".", 2) if "." in path else (path, "")
    return f"{field}.{item}" if below and item.isdigit() else field


def _packs(leaves: Iterable[Leaf], source: Source, full: float) -> Iterator[Segment]:
    texts: list[str] = []
    pieces: list[tuple[int, str]] = []
    size = 0
    for text, place, *_ in leaves:
        texts.append(text)
        pieces.append((size, place.path))
        size += len(text) + 1
        if size > full:
            yield _pack(texts, pieces, source)
            texts, pieces, size = [], [], 0
    if texts:
        yield _pack(texts, pieces, source)


def _pack(texts: list[str], pieces: list[tuple[int, str]], source: Source) -> Segment:
    path = pieces[0][1]
    return Segment("\n".join(texts), source, path, pieces=tuple(pieces) if len(pieces) > 1 else ())
