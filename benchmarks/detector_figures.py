"""Figures of the comparison of detectors (`benchmarks.detectors`), and their table.

"Caught" and "false positives" are those of a detector as shipped. "Length alone" is the share of attacks that the
length of a text would catch at the same rate of false positives, longer or shorter, whichever separates better.
"Recall at" takes the threshold from the benign units of the file itself, which flatters all detectors equally. A pair
is right if its attack is caught and its twin passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sidecar.evaluation import Row

RESAMPLES = 1000
RATES = (0.01, 0.05)
HEAD = ("detector", "caught", "false positives", "length alone", "both right", "AUC", "recall at 1 %", "at 5 %")


@dataclass(frozen=True, slots=True)
class Answer:
    """A detector's result for one unit; `elapsed` in milliseconds."""

    score: float
    blocked: bool
    elapsed: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one detector on one kind of unit.

    `recall_at` maps a false-positive rate to the recall and its 95 % bootstrap interval; `both_right` is None without
    pairs; `ms_per_kb` is wall time.
    """

    auc: float
    recall_at: dict[str, tuple[float, float, float]]
    caught: float
    false_positives: float
    length: float
    both_right: tuple[int, int] | None
    ms_per_kb: float


def figures(rows: Sequence[Row], answers: Sequence[Answer], rng: np.random.Generator) -> Figures:
    """All figures; `rows` and `answers` have the same order."""
    scores = np.array([a.score for a in answers])
    attack = np.array([row.attack for row in rows])
    blocked = np.array([a.blocked for a in answers])
    false_positives = float(blocked[~attack].mean())
    return Figures(
        auc=area(scores[attack], scores[~attack]),
        recall_at={f"{rate:g}": _interval(scores[attack], scores[~attack], rate, rng) for rate in RATES},
        caught=float(blocked[attack].mean()),
        false_positives=false_positives,
        length=length_alone(rows, false_positives),
        both_right=both_right(rows, answers),
        ms_per_kb=sum(a.elapsed for a in answers) / (sum(row.bytes for row in rows) / 1000),
    )


def area(attacks: np.ndarray, benign: np.ndarray) -> float:
    """The probability that an attack scores above a benign unit, ties counting half (Mann-Whitney)."""
    order = np.sort(benign)
    below = np.searchsorted(order, attacks, "left") + np.searchsorted(order, attacks, "right")
    return float(below.mean() / 2 / len(order))


def recall(attacks: np.ndarray, benign: np.ndarray, rate: float) -> float:
    """Share of attacks above the score that at most this share of benign units exceeds."""
    return float((attacks > np.sort(benign)[::-1][min(len(benign) - 1, int(rate * len(benign)))]).mean())


def length_alone(rows: Sequence[Row], rate: float) -> float:
    """The recall of length as a score at this rate of false positives."""
    attacks, benign = (np.array([row.bytes for row in rows if row.attack is kind], float) for kind in (True, False))
    sign = 1 if area(attacks, benign) >= 0.5 else -1
    return recall(sign * attacks, sign * benign, rate)


def both_right(rows: Sequence[Row], answers: Sequence[Answer]) -> tuple[int, int] | None:
    """Pairs whose attack is caught and whose twin passes, and all pairs."""
    sides = {(row.pair, row.attack): answer.blocked for row, answer in zip(rows, answers, strict=True) if row.pair}
    pairs = [name for name, attack in sides if attack and (name, False) in sides]
    return (sum(sides[name, True] and not sides[name, False] for name in pairs), len(pairs)) if pairs else None


def _interval(
    attacks: np.ndarray, benign: np.ndarray, rate: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    drawn = [recall(rng.choice(attacks, len(attacks)), rng.choice(benign, len(benign)), rate) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return recall(attacks, benign, rate), float(low), float(high)


def table(measured: Mapping[str, Figures], megabytes: Mapping[str, float]) -> str:
    """The figures in Markdown; times are multiples of the first detector's."""
    first = next(iter(measured.values())).ms_per_kb
    lines = [(*HEAD, "time per kB", "memory MB"), ("---", *("---:",) * (len(HEAD) + 1))]
    for name, figure in measured.items():
        right = "-" if figure.both_right is None else "{} of {}".format(*figure.both_right)
        shares = (f"{figure.caught:.0%}", f"{figure.false_positives:.1%}", f"{figure.length:.0%}")
        at = [f"{middle:.0%} ({low * 100:.0f} to {high * 100:.0f})" for middle, low, high in figure.recall_at.values()]
        cost = (f"{figure.ms_per_kb / first:.2g}", f"{megabytes[name]:.0f}")
        lines.append((name, *shares, right, f"{figure.auc:.2f}", *at, *cost))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("%", " %").replace("  %", " %")
