"""Twin of sidecar/harden/harmless.py."""

from __future__ import annotations

from sidecar.harden.harmless import SENTENCES
from sidecar.normalization.budget import count_trigger_words


def test_sentences_are_short_distinct_and_near_to_attacks() -> None:
    """Most hold a word that attacks need."""
    assert len(set(SENTENCES)) == len(SENTENCES) >= 30
    assert all(len(sentence) <= 120 for sentence in SENTENCES)
    assert sum(count_trigger_words(sentence) > 0 for sentence in SENTENCES) > 0.5 * len(SENTENCES)
