"""Twin of training/first_stage.py."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from training import first_stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WORDS = 60


def windows(
    count: int, seed: int
) -> tuple[list[tuple[tuple[int, ...], int]], np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """Windows of random words; the teacher minds whether 7 stands before 9, and is told by whom."""
    rng, batch, labels = Random(seed), [], []
    for number in range(count):
        ids = [rng.randrange(10, WORDS) for _ in range(rng.randrange(4, 30))]
        if number % 2:
            at = rng.randrange(len(ids))
            ids[at:at] = [7, 9]
        batch.append((tuple(ids), number % 3))
        labels.append((2.0 if number % 2 else -3.0) - (number % 3 == 2))
    return batch, np.array(labels, np.float32)


def test_it_learns_what_it_is_told_of_runs_of_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of windows that it has not seen, too; written and read back it says the same."""
    monkeypatch.setattr(first_stage, "TOKENS", 512)
    torch.manual_seed(1)
    model = first_stage.train(first_stage.begin(torch.randn(WORDS, 96)), *windows(1500, 1))
    unseen, labels = windows(200, 2)
    predicted = first_stage.logits(model, unseen)
    assert float(np.mean((predicted > -1) == (labels > -1))) > 0.95
    first_stage.save(model, tmp_path / "first.pt")
    assert np.array_equal(first_stage.logits(first_stage.load(tmp_path / "first.pt"), unseen), predicted)


def test_padding_changes_nothing() -> None:
    """A window says the same beside a longer one."""
    torch.manual_seed(1)
    model = first_stage.begin(torch.randn(WORDS, 96))
    short, long = ((11, 12, 13), 0), (tuple(range(10, 50)), 1)
    assert first_stage.logits(model, [short, long])[0] == pytest.approx(first_stage.logits(model, [short])[0], abs=1e-5)
