"""Twin of benchmarks/action_weights.py: the shipped weights are those that it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.action_weights import NAMES, main
from sidecar.actions.evidence import WEIGHTS

BLIND = Path(__file__).parents[2] / "benchmarks" / "blind"
AUTHORS = ("l_trajectories_office", "l_trajectories_money", "l_trajectories_code", "l_trajectories_web")
TOLERANCE = {"same_domain": 0.1}
"""Few tasks have it."""
TUNED = (*AUTHORS, "h_trajectories_tuned", "i_trajectories_tuned")


def test_the_shipped_weights_are_those_that_are_fitted() -> None:
    """Nearly, since the evidence depends a little on the weights; each author left out is named."""
    ordinary = [part for name in ("conversations", "b_conversations") for part in ("--ordinary", _file(name))]
    printed = CliRunner().invoke(main, [*map(_file, TUNED), *ordinary], catch_exceptions=False).stdout
    weights, _, authors = printed.partition("}\n")
    fitted = json.loads(f"{weights}}}")
    assert set(fitted) == set(NAMES)
    assert all(WEIGHTS[name] == pytest.approx(weight, abs=TOLERANCE.get(name, 0.03)) for name, weight in fitted.items())
    assert [line.partition(".")[0] for line in authors.splitlines()] == list(TUNED)


def _file(name: str) -> str:
    return str(BLIND / f"{name}.jsonl.gz")
