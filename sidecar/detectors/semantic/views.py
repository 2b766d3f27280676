"""The views of a text that the model scores: the text itself, and what is hidden in it."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.normalization import encodable, normalizations, readings
from sidecar.normalization.normalized_text import NormalizedText

_COMMON_ENCODINGS = frozenset({"url", "leet"})
_SPELLINGS = frozenset({"unhidden", "folded"})
"""Last steps of views that are scored with their parent: every window is also scored in this spelling."""


def views_to_score(text: str) -> Iterator[NormalizedText]:
    """The text, its hidden content, and what it says if its words are read as English.

    URL encoding and leetspeak are too common to count as hidden.
    """
    yield NormalizedText(encodable(text))
    views = normalizations(text)
    hidden = (view for view in views if view.hidden and _COMMON_ENCODINGS.isdisjoint(view.path))
    yield from (view for view in hidden if view.path[-1] not in _SPELLINGS)
    yield from readings(views)
