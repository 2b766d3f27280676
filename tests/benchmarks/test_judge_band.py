"""The choice of the judge's band, on few rows, checked by hand."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.judge_band import Case, bands, best, cases, frontier, read_scores, trade

ROWS = [
    Case(attack=True, score=0.5, judge_blocks=1.0, weight=1.0),
    Case(attack=True, score=0.9, judge_blocks=0.0, weight=1.0),
    Case(attack=False, score=0.7, judge_blocks=0.0, weight=1.0),
    Case(attack=False, score=0.1, judge_blocks=1.0, weight=1.0),
]


def test_a_band_counts_questions_calls_and_errors() -> None:
    """Two rows in the band, both wrong before and right after; one is acquitted, so there are three calls."""
    result = trade(ROWS, 0.4, 0.8, 0.6)
    assert (result.asked, result.calls, result.errors_before, result.errors_after) == (2, 3, 2, 0)


def test_a_judge_can_make_things_worse() -> None:
    """Over the whole range the judge adds two errors."""
    assert trade(ROWS, 0.0, 1.0, 0.6).avoided == 0


def test_the_upper_bound_is_outside() -> None:
    """A band contains low <= score < high, as in the engine."""
    assert trade(ROWS, 0.5, 0.7, 0.6).asked == 1


def test_the_best_band_is_the_cheapest_of_the_most_useful() -> None:
    """It is within the budget, and None if no band avoids an error."""
    trades = sorted((trade(ROWS, low, high, 0.6) for low, high in bands(0.6)), key=lambda t: t.calls)
    chosen = best(trades, 10)
    assert chosen is not None
    assert (chosen.avoided, chosen.calls) == (2, 3)
    assert best(trades, 0.5) is None
    assert [t.avoided for t in frontier(trades)] == [1, 2]


def test_rows_are_weighed_to_the_share_of_attacks(tmp_path: Path) -> None:
    """Two attacks and one benign row at 10 % attacks: 50 of 1,000 each, and 900."""
    rows = [{"id": str(n), "text": "x", "labels": ["jailbreak"] if n else [], "benign": not n} for n in range(3)]
    (tmp_path / "rows").write_text("\n".join(json.dumps(row) for row in rows))
    lines = [{"id": str(n), "risk_score": 0.5} for n in range(3)]
    (tmp_path / "scores").write_text("\n".join(json.dumps(line) for line in lines))
    arguments = Namespace(attacks=0.1, recall=0.9, false_positives=0.05, threshold=0.6)
    weighted = cases(tmp_path / "rows", read_scores(tmp_path / "scores"), {}, arguments)
    assert [(c.attack, c.judge_blocks, round(c.weight, 9)) for c in weighted] == [
        (False, 0.05, 900),
        (True, 0.9, 50),
        (True, 0.9, 50),
    ]
    judged = cases(tmp_path / "rows", read_scores(tmp_path / "scores"), {"1": 0.7, "0": 0.2}, arguments)
    assert [c.judge_blocks for c in judged] == [0.0, 1.0, 0.0]
    with pytest.raises(SystemExit):
        cases(tmp_path / "rows", {"0": 0.5}, {}, arguments)
