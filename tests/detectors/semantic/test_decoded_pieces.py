"""Twin of sidecar/detectors/semantic/decoded_pieces.py: no decoy takes the place of a piece that must be scored."""

from __future__ import annotations

from sidecar.detectors.semantic.cascade import FirstStageScore
from sidecar.detectors.semantic.decoded_pieces import MAX_DECODED, Piece, most_suspicious
from sidecar.detectors.semantic.windows import Window


def piece(text: str, suspicion: float, *, conclusive: bool = True) -> Piece:
    """A decoded piece with its score by the first stage."""
    return FirstStageScore(suspicion, conclusive), Window((len(text),), 0, len(text), text)


DECOYS = [piece(f"decoy {number}", 5.0) for number in range(100)]


def chosen(pieces: list[Piece], hit: str = "") -> list[str]:
    """The texts that are scored alone, where a rule has this hit."""
    return [window.text for _, window in most_suspicious(pieces, lambda window: window.text == hit)]


def test_the_most_suspicious_are_scored() -> None:
    """So many, wherever they stand."""
    texts = chosen([*DECOYS, piece("attack", 9.0)])
    assert len(texts) == MAX_DECODED
    assert "attack" in texts


def test_a_hit_of_a_rule_is_always_scored() -> None:
    """Though the first stage finds it harmless."""
    assert "attack" in chosen([*DECOYS, piece("attack", -9.0)], hit="attack")


def test_what_the_first_stage_cannot_judge_has_places_of_its_own() -> None:
    """Its score says nothing there."""
    assert "attack" in chosen([*DECOYS, piece("attack", -9.0, conclusive=False)])
