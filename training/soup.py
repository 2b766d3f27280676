"""Trains one network for each fold, two at a time, and takes the mean of their weights.

Networks that began at the same weights lie in one valley, and their mean reads texts of unseen sources better than each
(Wortsman et al., "Model soups", 2022; here on `dev`: docs/detection.md). Each on one thread of its own: two threads on
one network of this size wait for each other longer than they work.
"""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import orjson
import torch

from training import folds
from training.network import Network
from training.rows import Row
from training.trainer import Plan, Trainer

Weights = Mapping[str, torch.Tensor]


def fingerprint(rows: Sequence[Row], plan: Plan) -> str:
    """Names a run by everything that it depends on."""
    told = orjson.dumps([[row.id, row.text, sorted(row.labels), row.indirect] for row in rows])
    return hashlib.sha256(told + orjson.dumps(asdict(plan))).hexdigest()[:12]


def parents(rows: Sequence[Row], plan: Plan, work: Path, processes: int) -> list[Path]:
    """Checkpoints of the finished trainings, one for each fold; what was stopped goes on after its last round."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(partial(trained, rows, plan, work), range(len(folds.FOLDS))))


def trained(rows: Sequence[Row], plan: Plan, work: Path, fold: int) -> Path:
    """The checkpoint of one training after all rounds, without its fold and with a seed of its own."""
    torch.set_num_threads(1)
    seen, mine = folds.taught(rows, fold), replace(plan, seed=plan.seed + fold)
    kept = work / f"network-{fold + 1}-{fingerprint(seen, mine)}.pt"
    trainer = Trainer(seen, mine)
    if kept.exists():
        trainer.restore(kept)
    trainer.run(kept, f"training {fold + 1} of {len(folds.FOLDS)}")
    return kept


def mean(parts: Sequence[Weights]) -> dict[str, torch.Tensor]:
    """Each weight as the mean of its values; what is no fraction is as in the first."""
    first = parts[0]
    return {
        name: torch.stack([part[name].float() for part in parts]).mean(0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in first.items()
    }


def read(path: Path) -> Weights:
    """The weights of a checkpoint."""
    found: Weights = torch.load(path, weights_only=True)["network"]
    return found


def network(weights: Weights) -> Network:
    """A network of these weights, ready to be asked."""
    made = Network()
    made.load_state_dict(dict(weights))
    return made.eval()
