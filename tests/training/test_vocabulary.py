"""Twin of training/vocabulary.py."""

from __future__ import annotations

import numpy as np
import pytest

from sidecar.detectors.semantic.sentencepiece import SentencePieceTokenizer
from training import vocabulary

WORDS = ("calm", "words", "rare", "c", "a", "l", "m", "w", "o", "r", "d", "s", "e")


class Base:
    """Pieces with scores, the commonest first, as the base has them."""

    pieces = (*vocabulary.SPECIAL, "\u2581", *(f"\u2581{word}" for word in WORDS[:3]), *WORDS[3:])
    scores = np.array([0.0] * 4 + [-3.0] + [-4.0, -5.0, -6.0] + [-9.0] * 10, np.float32)


BASE = Base()


def test_a_vocabulary_reads_text_as_the_base_does() -> None:
    """Whole words where they are kept, one space for many, wide letters as plain ones."""
    every = np.arange(len(BASE.pieces))
    pieces = SentencePieceTokenizer(vocabulary.model(BASE, every))  # type: ignore[arg-type]
    assert pieces("calm words") == pieces("\uff43alm    words") == (5, 6)
    assert pieces.with_special_tokens(()) == [0, 2]
    assert pieces.unknown_id == vocabulary.UNKNOWN in pieces("\U00010900")


def test_what_is_never_met_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single letters stay, so that a word that was cut can still be read."""
    monkeypatch.setattr(vocabulary, "COMMON", 5)
    monkeypatch.setattr(vocabulary, "MIN_COUNT", 2)
    counts = vocabulary.count(BASE, ["calm words", "calm words rare"])  # type: ignore[arg-type]
    numbers = vocabulary.chosen(BASE, counts)  # type: ignore[arg-type]
    assert [BASE.pieces[n] for n in numbers if n in (5, 6, 7)] == ["\u2581calm", "\u2581words"]
    pieces = SentencePieceTokenizer(vocabulary.model(BASE, numbers))  # type: ignore[arg-type]
    assert vocabulary.UNKNOWN not in pieces("rare calm")
