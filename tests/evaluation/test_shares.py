"""Twin of sidecar/evaluation/shares.py."""

from __future__ import annotations

import pytest

from sidecar.evaluation.shares import Share, auc, ece, recall_at


@pytest.mark.parametrize(
    ("attack", "benign", "expected"), [([0.9, 0.8], [0.1, 0.2], 1.0), ([0.5], [0.5], 0.5), ([0.1], [0.9], 0)]
)
def test_auc_is_the_share_of_pairs_in_the_right_order(
    attack: list[float], benign: list[float], expected: float
) -> None:
    """Perfect order is 1, a tie one half, reversed 0."""
    assert auc([(score, True) for score in attack] + [(score, False) for score in benign]) == expected


def test_ece_is_zero_for_honest_scores_and_large_for_boasts() -> None:
    """Half of the rows at 0.5 being attacks is calibrated; benign rows at 1.0 are not."""
    assert ece([(0.5, True), (0.5, False)]) == 0.0
    assert ece([(1.0, False)]) == 1.0


def test_intervals_are_wilsons() -> None:
    """8 of 10 gives 0.490 to 0.943, as in the literature; nothing of nothing says nothing."""
    low, high = Share(8, 10).interval()
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert (Share(0, 0).rate, Share(0, 0).interval()) == (None, (0.0, 1.0))


def test_recall_at_a_rate_lets_no_more_harmless_rows_be_refused_than_that() -> None:
    """At 1 % of 100 rows one may be refused, at 0.5 % none; ties with a harmless row count against the attack."""
    benign = [(0.95, False), (0.5, False)] + [(0.1, False)] * 98
    attacks = [(0.99, True), (0.6, True), (0.5, True), (0.05, True)]
    recalls = {rate: recall_at(benign + attacks, rate) for rate in (0.005, 0.01, 0.02)}
    assert {rate: share and share.hits for rate, share in recalls.items()} == {0.005: 1, 0.01: 2, 0.02: 3}
    assert recall_at(attacks, 0.01) is None
