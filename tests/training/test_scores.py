"""Twin of training/scores.py."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tiny_model

from sidecar.layers.windows import windows
from training import scores
from training.rows import Row


def test_a_row_is_scored_by_its_worst_window() -> None:
    """The highest logit of all its windows, with their count; a text without tokens is far below."""
    rows = [Row(t, t, frozenset(), indirect=False, source="s", group=t) for t in ("calm " * 300 + "attack", "calm", "")]
    read = partial(windows, tiny_model.tokenizer())
    found = scores.score(rows, read, lambda cut: [float(6 in w.ids) for w, _ in cut])
    assert [(s.logit, s.windows) for s in found] == [(1.0, 3), (0.0, 1), (-20.0, 0)]


def test_figures_of_separation() -> None:
    """AUC counts pairs, ties half; recall counts what lies above the benign threshold."""
    attacks, benign = np.array([0.9, 0.8, 0.3]), np.array([0.1, 0.2, 0.3, 0.85])
    assert scores.auc(attacks, benign) == pytest.approx((4 + 3 + 2.5) / 12)
    assert scores.recall_at(attacks, benign, 0.0) == pytest.approx(1 / 3)
    assert scores.recall_at(attacks, benign, 0.25) == pytest.approx(2 / 3)


def test_a_perfectly_calibrated_score_has_no_error() -> None:
    """Three quarters of the rows at 0.75 are attacks: no error. None of them: all of it."""
    chances = np.full(4, 0.75)
    assert scores.ece(chances, np.array([True, True, True, False])) == pytest.approx(0)
    assert scores.ece(chances, np.array([False] * 4)) == pytest.approx(0.75)


@pytest.mark.parametrize(("count", "most"), [(3, 5), (5, 5), (50, 5), (50, 1)])
def test_a_spread_takes_the_ends_and_the_middle(count: int, most: int) -> None:
    """Evenly over the text, never more than asked for."""
    windows = [scores.Window((n,), n, n + 1, "x") for n in range(count)]
    taken = scores.spread(windows, most)
    assert len(taken) == min(count, most)
    assert taken[0] == windows[0]
