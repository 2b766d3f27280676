"""Twin of sidecar/detectors/semantic/texts.py."""

from __future__ import annotations

from sidecar.detectors.semantic.texts import TextView, is_hit
from sidecar.detectors.semantic.windows import Window
from sidecar.normalization import NormalizedText


def test_a_place_in_a_later_chunk_is_a_place_in_the_text() -> None:
    """The offset of the chunk is added."""
    view = TextView(0, 100, NormalizedText("calm words"))
    assert view.locate(0, 4) == (100, 104)


def test_a_window_is_hit_where_a_finding_overlaps_it() -> None:
    """Findings before, after and at its border do not."""
    view, window = TextView(0, 100, NormalizedText("calm words")), Window((1,), 5, 10, "words")
    assert is_hit(((90, 95), (103, 106)), view, window)
    assert not is_hit(((90, 105), (110, 120)), view, window)
    assert not is_hit((), view, window)
