"""The mean of several trainings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch

from training import soup
from training.rows import Row, corpus
from training.trainer import Plan, Trainer


def test_every_weight_is_the_mean_of_its_values() -> None:
    """Fractions are averaged in their own precision, counters stay those of the first."""
    one = {"layer": torch.tensor([1.0, 3.0]), "steps": torch.tensor(4)}
    other = {"layer": torch.tensor([2.0, 1.0]), "steps": torch.tensor(9)}
    made = soup.mean([one, other])
    assert made["layer"].tolist() == [1.5, 2.0]
    assert made["steps"].item() == 4


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_a_stage_begins_at_the_mean_of_the_last(tmp_path: Path) -> None:
    """Two networks with seeds of their own, trained on next to nothing; what is finished is not trained again."""
    own = Random(1).sample([row for row in corpus() if len(row.text) < 1_500], 80)
    asked = [Row(f"{n}", f"How do I bake bread number {n}?", frozenset(), False, "x", f"{n}") for n in range(5)]
    plan = replace(Plan(), draws=8, rounds=1)
    first = [soup.trained([*own, *asked], plan, tmp_path, (), Trainer, number) for number in range(2)]
    weights = [soup.read(path) for path in first]
    assert not torch.equal(weights[0]["head.weight"], weights[1]["head.weight"])
    still = replace(plan, rate=0.0)
    second = soup.trained([*own, *asked], still, tmp_path, first, Trainer, 0)
    assert torch.allclose(soup.read(second)["head.weight"], soup.mean(weights)["head.weight"])
    before = second.stat().st_mtime_ns
    assert soup.trained([*own, *asked], still, tmp_path, first, Trainer, 0) == second
    assert second.stat().st_mtime_ns == before
    assert not soup.network(soup.read(second)).training
