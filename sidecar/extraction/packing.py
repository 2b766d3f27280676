"""Packs short strings of one source and place into one segment, so that 600 tools cost no more than their text.

A place is an item of a list (`tools.3`), else a field of the body (`metadata`, the strings of `input`). The strings
keep their order, one per line; `Segment.pieces` holds the offset and path of each, so that a finding names it. Text of
a turn is not packed: it stays a separate segment. A tool result in JSON is a single segment of any length: the
semantic layer corrects a score for the number of windows scored, and that must count all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from math import inf

from sidecar.extraction.walker import Leaf
from sidecar.types import Segment, Source

MAX_STRING_LENGTH = 400
"""Longest string that is packed, in code points: about one window of the semantic model."""
PACK_LENGTH = 1_200
"""Code points from which a pack is full. If a list is sent again with one more string, only its last pack is new."""


_Text = tuple[str, Source]
_Repeated = dict[_Text, list[str]]


def segments(leaves: Iterable[Leaf]) -> Iterator[Segment]:
    """One segment for each long text and each pack; a repeated text of the same source is skipped."""
    unique: dict[_Text, Leaf] = {}
    repeated: _Repeated = {}
    for leaf in leaves:
        key = leaf.text, leaf.location.source
        if unique.setdefault(key, leaf) is not leaf:
            repeated.setdefault(key, []).append(leaf.location.path)
    for (source, place), group in groupby(unique.values(), key=_key):
        if place is None:
            for leaf in group:
                others = tuple(repeated.get((leaf.text, source), ()))
                definition = source is Source.APPLICATION and not leaf.prose
                yield Segment(
                    leaf.text,
                    source,
                    leaf.location.path,
                    rules_only=leaf.rules_only,
                    repeated=others,
                    definition=definition,
                )
        else:
            yield from _packs(group, source, inf if _is_result(source, place) else PACK_LENGTH, repeated)


def _key(leaf: Leaf) -> tuple[Source, str | None]:
    """Source and place; None as the place of a text that is not packed."""
    source = leaf.location.source
    if (leaf.prose and leaf.location.turn) or leaf.rules_only:
        return source, None
    place = _place(leaf.location.path)
    alone = len(leaf.text) > MAX_STRING_LENGTH and not _is_result(source, place)
    return source, None if alone else place


def _is_result(source: Source, place: str) -> bool:
    """Whether this is a third-party turn, which is complete when first sent: nothing is added to it later."""
    return source is Source.UNTRUSTED and ("." in place or place == "structuredContent")


def _place(path: str) -> str:
    field, item, *remainder = path.split(".", 2) if "." in path else (path, "")
    return f"{field}.{item}" if remainder and item.isdigit() else field


def _packs(leaves: Iterable[Leaf], source: Source, max_length: float, repeated: _Repeated) -> Iterator[Segment]:
    packed: list[Leaf] = []
    size = 0
    for leaf in leaves:
        packed.append(leaf)
        size += len(leaf.text) + 1
        if size > max_length:
            yield _pack(packed, source, repeated)
            packed, size = [], 0
    if packed:
        yield _pack(packed, source, repeated)


def _pack(leaves: list[Leaf], source: Source, repeated: _Repeated) -> Segment:
    texts, paths = [leaf.text for leaf in leaves], [leaf.location.path for leaf in leaves]
    starts = accumulate((len(text) + 1 for text in texts), initial=0)
    pieces = tuple(zip(starts, paths, strict=False)) if len(leaves) > 1 else ()
    others = tuple(path for text in texts for path in repeated.get((text, source), ())) if repeated else ()
    definition = source is Source.APPLICATION and not any(leaf.prose for leaf in leaves)
    return Segment("\n".join(texts), source, paths[0], pieces=pieces, repeated=others, definition=definition)
