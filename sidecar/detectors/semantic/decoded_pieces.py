"""Which decoded pieces of a view are scored alone: of hundreds each would cost a pass."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

from sidecar.detectors.semantic.cascade import FirstStageScore
from sidecar.detectors.semantic.windows import Window

MAX_DECODED = 12
"""Pieces that are scored alone of those that the first stage can judge, and as many of those that it cannot."""
Piece = tuple[FirstStageScore, Window]


def most_suspicious(pieces: Sequence[Piece], is_hit: Callable[[Window], bool]) -> Iterator[Piece]:
    """The most suspicious pieces, and each one where a rule has a hit. All others are read with their context."""
    rest: dict[bool, list[Piece]] = {True: [], False: []}
    for score, window in pieces:
        if is_hit(window):
            yield score, window
        else:
            rest[score.conclusive].append((score, window))
    for group in rest.values():
        yield from heapq.nlargest(MAX_DECODED, group, key=lambda piece: piece[0].suspicion)
