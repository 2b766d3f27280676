"""Twin of training/folds.py."""

from __future__ import annotations

from training import folds
from training.rows import Row, corpus

ROWS = [
    Row(f"{source}/{attack}", "text", frozenset({"jailbreak"} if attack else ()), False, source, source, pii=not attack)
    for source in sorted(set().union(*folds.FOLDS))
    for attack in (False, True)
]


def test_every_source_is_left_out_once() -> None:
    """And is in all other trainings; harmless rows with personal data judge nobody."""
    for row in ROWS:
        assert [row in folds.training_rows(ROWS, fold) for fold in range(4)].count(False) == 1
        assert [row in folds.validation_rows(ROWS, fold) for fold in range(4)].count(True) == row.attack


def test_our_own_rows_are_in_every_training() -> None:
    """No fold holds a source of ours."""
    rows = corpus()[:50]
    assert all(folds.training_rows(rows, fold) == rows and not folds.validation_rows(rows, fold) for fold in range(4))
