"""Twin of sidecar/detectors/semantic/background.py."""

from __future__ import annotations

from sidecar.detectors.semantic.background import BACKGROUND, FOLLOW_UPS


def test_the_sentences_are_different_and_in_several_languages() -> None:
    """No sentence twice, and Spanish among them."""
    assert len({*BACKGROUND, *FOLLOW_UPS}) == len(BACKGROUND) + len(FOLLOW_UPS) > 90
    assert all(any("¿" in line for line in lines) for lines in (BACKGROUND, FOLLOW_UPS))
