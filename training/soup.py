"""Trains in stages: networks that begin at the same weights, two at a time, and the next stage begins at their mean.

Such networks lie in one valley, and their mean reads texts of unseen sources better than each (Wortsman et al., "Model
soups", 2022; Stich, "Local SGD converges fast and communicates little", 2019; here on `dev`: docs/detection.md). Each
has one thread of its own: two threads on one network of this size wait for each other longer than they work.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import orjson
import torch

from training.network import Network
from training.rows import Row
from training.trainer import Plan, Trainer

Weights = Mapping[str, torch.Tensor]
NETWORKS = 2
RATES = (1.0, 1.0, 0.5, 0.5)
"""Of the plan's rate, one for each stage."""
ALLOCATOR = {f"MALLOC_{name}_": str(8 << 30) for name in ("MMAP_THRESHOLD", "TRIM_THRESHOLD")}
"""Memory that a step has freed is kept for the next: giving it back and asking anew took a twelfth of the time."""


def fingerprint(rows: Sequence[Row], plan: Plan) -> str:
    """Names a run by everything that it depends on."""
    told = orjson.dumps([[row.id, row.text, sorted(row.labels), row.indirect] for row in rows])
    return hashlib.sha256(told + orjson.dumps(asdict(plan))).hexdigest()[:12]


def cooked(
    rows: Sequence[Row],
    plan: Plan,
    work: Path,
    processes: int,
    start: Sequence[Path] = (),
    trainer: type[Trainer] = Trainer,
) -> Weights:
    """The mean after the last stage; begins at the mean of `start`, and goes on where it was stopped."""
    os.environ.update(ALLOCATOR)  # a process reads it when it begins
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for stage, share in enumerate(RATES):
            mine = replace(plan, rate=plan.rate * share, seed=plan.seed + stage * NETWORKS)
            start = list(pool.map(partial(trained, rows, mine, work, start, trainer), range(NETWORKS)))
    return mean([read(path) for path in start])


def trained(
    rows: Sequence[Row], plan: Plan, work: Path, start: Sequence[Path], kind: type[Trainer], number: int
) -> Path:
    """The checkpoint of one network of a stage, which has a seed of its own."""
    torch.set_num_threads(1)
    mine = replace(plan, seed=plan.seed + number)
    begun = "-".join(path.stem for path in start)
    told = f"{kind.__name__} {begun} {fingerprint(rows, mine)}"
    kept = work / f"{hashlib.sha256(told.encode()).hexdigest()[:12]}.pt"
    trainer = kind(rows, mine)
    if kept.exists():
        trainer.restore(kept)
    elif start:
        trainer.load(mean([read(path) for path in start]))
    trainer.run(kept, f"{kind.__name__}: network {mine.seed - plan.seed + 1} of {NETWORKS}, rate {mine.rate:g}")
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
