"""The mean of several trainings."""

from __future__ import annotations

import pytest
import torch

from training.rows import Row
from training.scores import Score
from training.soup import curve, mean


def test_every_weight_is_the_mean_of_its_values() -> None:
    """Fractions are averaged in their own precision, counters stay those of the first."""
    one = {"layer": torch.tensor([1.0, 3.0]), "steps": torch.tensor(4)}
    other = {"layer": torch.tensor([2.0, 1.0]), "steps": torch.tensor(9)}
    made = mean([one, other])
    assert made["layer"].tolist() == [1.5, 2.0]
    assert made["steps"].item() == 4


def test_the_curve_turns_about_the_threshold() -> None:
    """A steeper curve says the same of the text at the threshold, and more of all others."""
    rows = [Row(str(n), "", frozenset({"jailbreak"} if n % 3 == 0 else ()), False, "s", str(n)) for n in range(60)]
    scores = [Score(row, (2.0 if row.attack else -2.0) + int(row.id) % 7 / 3, 1) for row in rows]
    flat, steep = curve(scores, 0.5), curve(scores, 1.5)
    points = [(0.4054651 - one.offset) / one.slope for one in (flat, steep)]
    assert points[0] == pytest.approx(points[1], abs=1e-5)
    assert steep.probability(points[1] + 1, 1) > flat.probability(points[0] + 1, 1) > 0.6
    assert steep.probability(points[1] - 1, 1) < flat.probability(points[0] - 1, 1) < 0.6
