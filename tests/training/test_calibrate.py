"""Twin of training/calibrate.py: the fit, on scores made for it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from sidecar.detectors.semantic.artifact import Calibration
from training import calibrate
from training.rows import Row
from training.scores import Score


def scored(logit: float, *, attack: bool) -> Score:
    """A score with what the fit looks at."""
    labels = frozenset({"jailbreak"} if attack else ())
    return Score(Row("i", "t", labels, 0, source="own_west", group="g"), logit, 1)


def scores(spread: float = 1.5) -> list[Score]:
    """Attacks around +2, harmless texts around -2."""
    rng = Random(4)
    return [scored(rng.gauss(2 if n % 2 else -2, spread), attack=bool(n % 2)) for n in range(3000)]


CALM = np.full(200, -4.0)
"""Documents in which there is nothing."""


def over(fitted: Calibration, logits: list[float]) -> float:
    """The share that reaches the threshold."""
    return sum(fitted.probability(logit) >= calibrate.THRESHOLD for logit in logits) / len(logits)


def test_the_threshold_lets_through_the_target_share() -> None:
    """At most the stated share of harmless rows reaches the threshold, and not far fewer."""
    rows = scores()
    share = over(calibrate.fit(rows, calibrate.limit(rows, CALM)), [s.logit for s in rows if not s.row.attack])
    assert calibrate.ROWS - 0.003 <= share <= calibrate.ROWS


def test_documents_move_the_threshold_where_they_score_higher() -> None:
    """Of documents, too, no more than their target reach it."""
    documents = np.array([5.0] * 10 + [-4.0] * 190)
    rows = scores()
    assert over(calibrate.fit(rows, calibrate.limit(rows, documents)), documents.tolist()) == 0
    few = np.array([5.0] + [-4.0] * 199)
    assert over(calibrate.fit(rows, calibrate.limit(rows, few)), few.tolist()) == calibrate.DOCUMENTS


def test_the_curve_says_how_often_it_is_an_attack() -> None:
    """Logits that part the rows well make probabilities near one and zero."""
    rows = scores(spread=0.3)
    fitted = calibrate.fit(rows, calibrate.limit(rows, CALM))
    assert fitted.probability(2) > 0.9
    assert fitted.probability(-2) < 0.1


def test_the_first_stage_exits_early_on_hardly_an_attack() -> None:
    """Of what the second stage catches, no more than that share lies below; what it does not catch does not matter."""
    first, second = np.arange(1000.0), np.full(1000, 5.0)
    second[:500] = -1.0
    limit = calibrate.early_exit_threshold(first, second, 2.0)
    assert ((first < limit) & (second >= 2.0)).sum() == calibrate.LOST * 500


def test_the_applications_texts_block_from_a_score_of_their_own() -> None:
    """At the same logit the score is the one that is asked for."""
    rows = scores()
    for block in (calibrate.THRESHOLD, calibrate.APPLICATION_THRESHOLD):
        assert calibrate.fit(rows, 1.5, block).probability(1.5) == pytest.approx(block)


def test_an_earlier_calibration_has_the_same_chance_at_a_lower_logit() -> None:
    """So that one threshold holds for all texts of the application."""
    fitted = Calibration(slope=0.8, offset=-1.0)
    assert calibrate.earlier(fitted, 1.35).probability(2.0) == pytest.approx(fitted.probability(3.35))
