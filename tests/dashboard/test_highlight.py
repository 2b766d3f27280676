"""Texts are cut where something was found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.dashboard.highlight import Piece, Span, pieces, spans
from sidecar.types import Finding, Label, LayerName

SPANS = st.builds(Span, st.integers(-5, 40), st.integers(-5, 40), st.sampled_from(["A", "B"]))


def test_pieces_tell_which_rules_met_them() -> None:
    """Spans may overlap; what lies in both names both."""
    cut = pieces("abcdef", [Span(1, 4, "A"), Span(3, 5, "B")])
    assert cut == [
        Piece("a"),
        Piece("bc", ("A",)),
        Piece("d", ("A", "B")),
        Piece("e", ("B",)),
        Piece("f"),
    ]


@given(st.text(max_size=30), st.lists(SPANS, max_size=8), st.integers(1, 40))
def test_whatever_was_found_the_text_stays_whole(text: str, spans: list[Span], longest: int) -> None:
    """Odd spans mark less, and never change or lose a letter."""
    cut = pieces(text, spans, longest)
    assert "".join(piece.text for piece in cut) == text[:longest]
    assert all(piece.text for piece in cut)


def test_findings_of_the_engine_and_of_the_log_are_read_alike() -> None:
    """Those without a place mark nothing."""
    here = Finding("INJ-1", Label.PROMPT_INJECTION, 0.9, LayerName.RULES, "prompt", 1, 2)
    nowhere = Finding("INJ-2", Label.PROMPT_INJECTION, 0.9, LayerName.RULES, "prompt")
    assert spans([here, nowhere]) == spans([{"rule": "INJ-1", "start": 1, "end": 2}]) == [Span(1, 2, "INJ-1")]
