"""Scores rows with a network or with a finished model, and states how well attacks and benign texts come apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidecar.layers.windows import Cut, Window
from training.rows import Row

Floats = npt.NDArray[np.float64]
Cutter = Callable[[str, Cut], list[Window]]
Scorer = Callable[[Sequence[tuple[Window, bool]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Score:
    """The attack logit of a row's worst window, and how many windows it has."""

    row: Row
    logit: float
    windows: int


def score(rows: Sequence[Row], windows: Cutter, scorer: Scorer, most: int = 256) -> list[Score]:
    """Every row by its worst window; at most so many windows of it, evenly spread."""
    cut, owner = [], []
    for number, row in enumerate(rows):
        found = spread(windows(row.text, Cut()), most)
        cut.extend((window, row.indirect) for window in found)
        owner.extend([number] * len(found))
    worst, count = np.full(len(rows), -20.0), np.bincount(owner, minlength=len(rows))
    np.maximum.at(worst, owner, scorer(cut))
    return [Score(row, float(worst[i]), int(count[i])) for i, row in enumerate(rows)]


def spread(found: Sequence[Window], most: int) -> list[Window]:
    """At most so many windows, evenly over the text, first and last included."""
    if len(found) <= most:
        return list(found)
    if most == 1:
        return [found[0]]
    return [found[round(i * (len(found) - 1) / (most - 1))] for i in range(most)]


def auc(attacks: Floats, benign: Floats) -> float:
    """The chance that an attack scores above a benign text, ties counting half."""
    order = np.sort(benign)
    below = np.searchsorted(order, attacks, "left") + np.searchsorted(order, attacks, "right")
    return float(below.mean() / 2 / len(order))


def recall_at(attacks: Floats, benign: Floats, rate: float) -> float:
    """Attacks above the threshold that lets through so many benign texts as false alarms."""
    return float((attacks > threshold(benign, rate)).mean())


def threshold(benign: Floats, rate: float) -> float:
    """The score that at most this share of benign texts exceeds."""
    ordered = np.sort(benign)[::-1]
    return float(ordered[min(len(ordered) - 1, math.floor(rate * len(ordered)))])


def ece(chances: Floats, attacks: npt.NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error over equal bins."""
    number = np.minimum((chances * bins).astype(int), bins - 1)
    return float(sum(abs((chances - attacks)[number == b].sum()) for b in range(bins)) / len(chances))
