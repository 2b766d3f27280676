"""Twin of sidecar/actions/evidence.py: names and weights."""

from __future__ import annotations

from sidecar.actions.evidence import WEIGHTS, Assessment, assessment, weights


def test_the_score_is_the_sum() -> None:
    """Rounded, so that a threshold of two digits can be met."""
    found = assessment(weights("unasked", "prose", "linked"))
    assert found == Assessment(0.4, None, {"unasked": 0.45, "prose": 0.25, "linked": -0.3})
    assert all(-1 < weight < 1 for weight in WEIGHTS.values())
