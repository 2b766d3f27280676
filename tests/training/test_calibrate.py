"""Twin of training/calibrate.py: the fit, on scores made for it."""

from __future__ import annotations

from random import Random

import pytest

from training import calibrate
from training.rows import Row
from training.scores import Score


def scored(logit: float, windows: int = 1, *, attack: bool, source: str = "own_west") -> Score:
    """A score with what the fit looks at."""
    labels = frozenset({"jailbreak"} if attack else ())
    return Score(Row("i", "t", labels, indirect=False, source=source, group="g"), logit, windows)


def scores(spread: float = 1.5, drift: float = 0.0) -> list[Score]:
    """Attacks around +2, harmless texts around -2, the long ones higher by `drift` for each doubling."""
    rng, made = Random(4), []
    for number in range(3000):
        long = number % 3 == 0
        mean = (2 if number % 2 else -2) + (4 * drift if long else 0)
        made.append(scored(rng.gauss(mean, spread), 16 if long else 1, attack=bool(number % 2)))
    return made


def test_the_threshold_lets_through_the_target_share() -> None:
    """At most the stated share of harmless texts reaches the threshold, and not far fewer."""
    made = scores()
    fitted = calibrate.fit(made, target=0.01)
    over = [fitted.probability(s.logit, s.windows) >= calibrate.THRESHOLD for s in made if not s.row.attack]
    assert 0.005 <= sum(over) / len(over) <= 0.011


def test_long_texts_must_show_more() -> None:
    """Where more windows mean higher maxima, the same logit is worth less in a longer text."""
    fitted = calibrate.fit(scores(drift=0.3), target=0.01)
    assert fitted.probability(3, 16) < fitted.probability(3, 2) < fitted.probability(3, 1)
    assert fitted.per_log_windows == pytest.approx(-calibrate.LENGTH * fitted.slope)


def test_scores_that_are_sure_already_are_left_alone() -> None:
    """With no harmless text near the threshold nothing is moved, and attacks stay caught."""
    fitted = calibrate.fit(scores(spread=0.1), target=0.01)
    assert fitted.probability(2, 1) > 0.9
    assert fitted.probability(-2, 1) < 0.1
