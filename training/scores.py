"""Scores texts with a finished model as it is served, and measures how well attacks and benign texts are separated."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.progress import track

from sidecar.detectors.semantic.artifact import ModelArtifact
from sidecar.detectors.semantic.batcher import Batcher
from sidecar.detectors.semantic.cascade import CascadeScorer
from sidecar.detectors.semantic.texts import ChannelText
from training.rows import Row

Floats = npt.NDArray[np.float64]
NONE = -20.0
"""The logit of a text without windows."""
EVERYTHING = 100_000
"""Window budget of one text: measurements have no limit."""
PART = 64


@dataclass(frozen=True, slots=True)
class Score:
    """The attack logit of a row's worst window, and how many windows it has."""

    row: Row
    logit: float
    windows: int


def score(rows: Sequence[Row], folder: Path, processes: int = 2) -> list[Score]:
    """Score every row by its worst window, as the semantic layer does."""
    outputs = logits([ChannelText(row.text, row.channel) for row in rows], folder, processes)
    return [Score(row, *output) for row, output in zip(rows, outputs, strict=True)]


def logits(texts: Sequence[ChannelText], folder: Path, processes: int = 2) -> list[tuple[float, int]]:
    """The attack logit of each text's worst window, and how many windows it has."""
    parts = [texts[at : at + PART] for at in range(0, len(texts), PART)]
    with ProcessPoolExecutor(processes) as pool:
        parts_done = track(pool.map(_part, [folder] * len(parts), parts), "scoring", len(parts), transient=True)
        return [logit for part in parts_done for logit in part]


def _part(folder: Path, texts: Sequence[ChannelText]) -> list[tuple[float, int]]:
    return asyncio.run(_read(folder, texts))


async def _read(folder: Path, texts: Sequence[ChannelText]) -> list[tuple[float, int]]:
    scorer = opened(folder)
    manifest = ModelArtifact.read(folder).manifest
    chance = lambda logit, channel: manifest.calibration_for(channel).probability(logit)  # noqa: E731
    reader = Batcher(scorer, budget=EVERYTHING, probability=chance)
    try:
        readings = [await reader.score([text]) for text in texts]
    finally:
        await reader.close()
    attack = scorer.head.attack
    return [
        (max((float(window.logits[attack]) for window in r.scored), default=NONE), r.window_counts[0]) for r in readings
    ]


@cache
def opened(folder: Path) -> CascadeScorer:
    """The model folder, opened once per process, on one thread."""
    return CascadeScorer.open(ModelArtifact.read(folder), 1)


def auc(attacks: Floats, benign: Floats) -> float:
    """The probability that an attack scores above a benign text, ties counting half."""
    order = np.sort(benign)
    below = np.searchsorted(order, attacks, "left") + np.searchsorted(order, attacks, "right")
    return float(below.mean() / 2 / len(order))


def recall_at(attacks: Floats, benign: Floats, rate: float) -> float:
    """The share of attacks above the threshold at this false-positive rate."""
    return float((attacks > threshold(benign, rate)).mean())


def threshold(benign: Floats, rate: float) -> float:
    """The score that at most this share of benign texts exceeds."""
    ordered = np.sort(benign)[::-1]
    return float(ordered[min(len(ordered) - 1, math.floor(rate * len(ordered)))])


def ece(chances: Floats, attacks: npt.NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error over equal bins."""
    number = np.minimum((chances * bins).astype(int), bins - 1)
    return float(sum(abs((chances - attacks)[number == b].sum()) for b in range(bins)) / len(chances))


def second_stage(windows: Sequence[tuple[tuple[int, ...], int]], folder: Path, processes: int = 2) -> Floats:
    """The second stage's attack logits for windows of pieces and their channels."""
    parts = [windows[at : at + 8 * PART] for at in range(0, len(windows), 8 * PART)]
    with ProcessPoolExecutor(processes) as pool:
        results = track(pool.map(_windows, [folder] * len(parts), parts), "teaching", len(parts), transient=True)
        return np.array([value for part in results for value in part])


def _windows(folder: Path, windows: Sequence[tuple[tuple[int, ...], int]]) -> list[float]:
    return list(_logits_of(opened(folder), windows))


def _logits_of(scorer: CascadeScorer, windows: Sequence[tuple[tuple[int, ...], int]]) -> Iterator[float]:
    for ids, channel in windows:
        yield float(scorer.head.logits(scorer.encoder.features([ids], [channel]))[0, scorer.head.attack])
