"""Twin of training/evaluate.py: the figures, from scores that are known."""

from __future__ import annotations

import numpy as np
import pytest

from training import evaluate
from training.rows import Row
from training.scores import Score


def scored(source: str, windows: int, *, attack: bool, channel: int = 0) -> Score:
    """A score with what the figures are grouped by."""
    labels = frozenset({"jailbreak"} if attack else ())
    return Score(Row("i", "t", labels, channel, source=source, group="g", lang="en"), 0.0, windows)


SCORES = [
    scored("a", 1, attack=True),
    scored("a", 1, attack=True),
    scored("a", 1, attack=False),
    scored("b", 3, attack=False),
    scored("b", 30, attack=False, channel=1),
]
CHANCES = np.array([0.9, 0.3, 0.1, 0.7, 0.2])


def test_figures_count_what_reaches_the_threshold() -> None:
    """Overall and in every grouping, attacks and harmless texts apart."""
    figures = evaluate.figures(SCORES, CHANCES)
    assert (figures["overall"]["recall"], figures["overall"]["false_positives"]) == (0.5, pytest.approx(1 / 3))
    assert figures["source"]["a"] == {"attacks": {"of": 2, "over": 0.5}, "benign": {"of": 1, "over": 0.0}}
    assert figures["source"]["b"] == {"benign": {"of": 2, "over": 0.5}}
    assert set(figures["windows"]) == {"1", "2-4", "17+"}
    assert set(figures["channel"]) == {"direct", "indirect"}


def test_curves_end_where_everything_is_caught() -> None:
    """At the price of every harmless text all attacks above the lowest one are found; bins hold all rows."""
    curves = evaluate.figures(SCORES, CHANCES)["curves"]
    recall = [share for _, share in curves["recall"]]
    assert recall == sorted(recall)
    assert sum(count for _, _, count in curves["reliability"]) == len(SCORES)
