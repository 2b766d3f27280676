"""The mean of several trainings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch

from training import soup
from training.rows import Row, corpus
from training.trainer import Plan


def test_every_weight_is_the_mean_of_its_values() -> None:
    """Fractions are averaged in their own precision, counters stay those of the first."""
    one = {"layer": torch.tensor([1.0, 3.0]), "steps": torch.tensor(4)}
    other = {"layer": torch.tensor([2.0, 1.0]), "steps": torch.tensor(9)}
    made = soup.mean([one, other])
    assert made["layer"].tolist() == [1.5, 2.0]
    assert made["steps"].item() == 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_network_for_each_fold_whose_mean_answers(tmp_path: Path) -> None:
    """Trained in processes of their own on next to nothing; a second run finds all of them finished."""
    own = Random(1).sample([row for row in corpus() if len(row.text) < 1_500], 80)
    asked = [Row(f"{n}", f"How do I bake bread number {n}?", frozenset(), False, "x", f"{n}") for n in range(5)]
    rows = [*own, *asked]
    plan = replace(Plan(), draws=8, rounds=1)
    paths = soup.parents(rows, plan, tmp_path, 2)
    weights = [soup.read(path) for path in paths]
    assert len({path.name for path in paths}) == 4
    assert not torch.equal(weights[0]["head.weight"], weights[1]["head.weight"])
    made = soup.network(soup.mean(weights))
    assert torch.allclose(made.head.weight, torch.stack([one["head.weight"] for one in weights]).mean(0))
    before = paths[3].stat().st_mtime_ns
    assert soup.trained(rows, plan, tmp_path, 3) == paths[3]
    assert paths[3].stat().st_mtime_ns == before
