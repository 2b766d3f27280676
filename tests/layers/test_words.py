"""Which words a text holds."""

from __future__ import annotations

from sidecar.layers.words import Words


def test_words_that_a_text_holds() -> None:
    """Wherever they stand, one inside another, one over another."""
    words = Words({b"she": 1, b"he": 2, b"hers": 4, b"is": 8})
    assert [words.held(text) for text in (b"ushers", b"", b"his", b"hhe")] == [7, 0, 8, 2]
    assert words.longest == 4


def test_no_words() -> None:
    """Then there are none to be held."""
    assert (Words({}).held(b"text"), Words({}).longest) == (0, 0)
