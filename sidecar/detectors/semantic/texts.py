"""The texts of a request as the batcher scores them, and their views."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.detectors.semantic.windows import Window
from sidecar.normalization import NormalizedText


@dataclass(frozen=True, slots=True)
class ChannelText:
    """One text to score and its author: 0 the user, 1 a third party, 2 to 4 the application (`layer.channel_of`).

    `hits`: spans of findings of earlier layers, in order and disjoint; the second stage scores the windows that they
    overlap. `embedded`: the number of its first windows of which the features are asked for.
    """

    text: str
    channel: int = 0
    hits: tuple[tuple[int, int], ...] = ()
    embedded: int = 0


@dataclass(frozen=True, slots=True)
class TextView:
    """One view of a chunk of a text, which begins at `offset`: the chunk itself or what was decoded from it."""

    text: int
    offset: int
    view: NormalizedText

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Where a span of this view lies in the text."""
        first, last = self.view.locate(start, end)
        return self.offset + first, self.offset + last


def is_hit(hits: Sequence[tuple[int, int]], source: TextView, window: Window) -> bool:
    """Whether a finding of an earlier layer overlaps a window."""
    if not hits:
        return False
    first, last = source.locate(window.start, window.end)
    before = bisect_left(hits, (last, 0))
    return before > 0 and hits[before - 1][1] > first
