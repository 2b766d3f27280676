"""Calibration without flattery: logits of rows whose whole source was left out of training, never of `dev`.

A logistic curve on the worst logit and the logarithm of the number of windows, every source weighing the
same; then the curve is moved until the threshold of the sidecar lets through no more benign texts of unseen
sources than the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from sidecar.layers.artefact import Calibration
from training.rows import Row
from training.scores import Floats, Score, score
from training.trainer import Plan, Trainer

THRESHOLD = 0.6
TARGET = 0.01
"""Share of benign texts of unseen sources at or above the threshold."""
FOLDS = (
    ("neuralchemy", "own_west", "own_latin", "writingbench", "pyrit_", "hinglish", "corpus_direct", "corpus_voices"),
    ("bipia_", "own_docs", "own_long", "inthewild", "plexpt", "deepset", "presidio", "corpus_indirect", "corpus_terse"),
    ("own_agent", "own_east", "own_scripts", "own_chat", "gpteacher", "gsm8k", "ogulcan", "derived", "hn_", "corpus_"),
)
"""Sources that are left out together, by the beginning of their names; the first that fits counts."""


def fold_of(row: Row) -> int:
    """In which fold a row is left out; sources that nobody named are in the last."""
    return next(
        (number for number, names in enumerate(FOLDS) if row.source.startswith(names)),
        len(FOLDS) - 1,
    )


def held_out(rows: Sequence[Row], plan: Plan, most: int = 250, windows: int = 12) -> Iterator[Score]:
    """Scores of rows by networks that never saw their source; at most so many rows of a source."""
    for number in range(len(FOLDS)):
        trainer = Trainer([row for row in rows if fold_of(row) != number], replace(plan, seed=plan.seed + number))
        trainer.run(name=f"fold {number + 1}/{len(FOLDS)}")
        chosen: dict[str, list[Row]] = {}
        for row in rows:
            if fold_of(row) == number and len(chosen.setdefault(row.source, [])) < most:
                chosen[row.source].append(row)
        yield from score([r for rs in chosen.values() for r in rs], trainer.tokenizer, trainer.scores, windows)


def fit(scores: Sequence[Score], target: float = TARGET) -> Calibration:
    """The curve, then its offset for the target."""
    logit = torch.tensor([s.logit for s in scores])
    length = torch.tensor([float(np.log(max(1, s.windows))) for s in scores])
    attack = torch.tensor([float(s.row.attack) for s in scores])
    weight = torch.tensor(_balanced(scores), dtype=torch.float32)
    curve = torch.tensor([0.7, 0.0, 0.0], requires_grad=True)
    optimiser = torch.optim.LBFGS([curve], max_iter=200)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        z = curve[0] * logit + curve[1] + curve[2] * length
        value = (torch.nn.functional.binary_cross_entropy_with_logits(z, attack, reduction="none") * weight).mean()
        value.backward()
        return value

    optimiser.step(loss)
    slope, offset, per_log = (float(value) for value in curve.detach())
    per_log = min(0.0, per_log)
    fitted = Calibration(slope=slope, offset=offset, per_log_windows=per_log)
    return fitted.model_copy(update={"offset": offset - _excess(scores, fitted, target)})


def _balanced(scores: Sequence[Score]) -> Floats:
    names = [(s.row.source, s.row.attack) for s in scores]
    size = {name: names.count(name) for name in set(names)}
    weights = np.array([size[name] ** -0.5 for name in names])
    return weights / weights.mean()


def _excess(scores: Sequence[Score], fitted: Calibration, target: float) -> float:
    """By how much the curve must fall so that the weighted share of benign texts over the threshold is the target."""
    weights = _balanced(scores)
    benign = [i for i, s in enumerate(scores) if not s.row.attack]
    z = np.array([_z(scores[i], fitted) for i in benign]) - np.log(THRESHOLD / (1 - THRESHOLD))
    order = np.argsort(-z)
    share = np.cumsum(weights[benign][order]) / weights[benign].sum()
    return max(0.0, float(z[order][min(len(share) - 1, int(np.searchsorted(share, target)))]))


def _z(one: Score, fitted: Calibration) -> float:
    return fitted.slope * one.logit + fitted.offset + fitted.per_log_windows * float(np.log(max(1, one.windows)))
