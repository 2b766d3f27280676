"""Figures of the comparison of detectors."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import detectors
from benchmarks.detectors import Answer, area, figures, recall, theirs
from sidecar.evaluation import Row
from sidecar.types import Label

ATTACK = Row("a", "x", frozenset({Label.PROMPT_INJECTION}), benign=False)
BENIGN = Row("b", "y", frozenset(), benign=True)


def test_area_counts_ties_as_half() -> None:
    """An attack with the same score as a benign row counts half."""
    assert area(np.array([1.0, 0.5]), np.array([0.5, 0.0])) == 0.875


def test_recall_takes_its_threshold_from_the_benign_rows() -> None:
    """The threshold is the score that at most the given share of benign rows exceeds."""
    attacks, benign = np.array([0.9, 0.6, 0.2]), np.array([0.8, 0.5, 0.1, 0.0])
    assert recall(attacks, benign, 0.25) == pytest.approx(2 / 3)
    assert recall(attacks, benign, 0.0) == pytest.approx(1 / 3)


def test_figures_tell_blocked_attacks_from_blocked_benign_rows() -> None:
    """Rows blocked at a detector's own threshold count as recall or false positives by their label."""
    answers = [Answer(0.9, True, 1.0), Answer(0.2, False, 3.0), Answer(0.1, True, 2.0)]
    result = figures([ATTACK, ATTACK, BENIGN], answers, np.random.default_rng(1))
    assert (result.caught, result.false_positives, result.median_ms, result.auc) == (0.5, 1.0, 2.0, 1.0)
    middle, low, high = result.recall_at["0.01"]
    assert low <= middle <= high


def test_a_peer_that_is_not_installed_is_named(tmp_path: Path) -> None:
    """Without its package the run ends with the peer's name and the reason, not with an incomplete table."""
    with pytest.raises(SystemExit, match="stackone-defender failed: ModuleNotFoundError"):
        list(theirs(Path(sys.executable), "stackone-defender", [ATTACK]))


def test_every_peer_is_known_to_the_script_that_asks_them() -> None:
    """Benchmark and script have the same list of names."""
    text = (detectors.HERE / "peers" / "score.py").read_text("utf-8")
    assert all(f'"{name}"' in text for name in detectors.PEERS)
