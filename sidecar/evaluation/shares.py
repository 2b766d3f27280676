"""Statistics on counts and scores: shares with intervals, AUC, calibration error, recall at fixed rates, quantiles.

Intervals are Wilson's 95 % score intervals (E. B. Wilson, 1927). AUC is the probability that an attack scores above a
benign row, ties counting half (Mann-Whitney). ECE is the expected calibration error over ten equal bins (Naeini et al.,
2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

Scored = tuple[float, bool]
"""A score, and whether its row is an attack."""
RATES = (0.005, 0.01, 0.02, 0.05)
"""False-positive rates at which recall is reported."""


class Share(NamedTuple):
    """`hits` of `of`, with Wilson's 95 % interval; `unscanned` units are not in `of`."""

    hits: int
    of: int
    unscanned: int = 0

    @property
    def rate(self) -> float | None:
        """The share; None if `of` is 0."""
        return self.hits / self.of if self.of else None

    def interval(self, z: float = 1.959964) -> tuple[float, float]:
        """Wilson's score interval."""
        if not self.of:
            return (0.0, 1.0)
        p, n = self.hits / self.of, self.of
        centre, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (max(0.0, (centre - spread) / (1 + z * z / n)), min(1.0, (centre + spread) / (1 + z * z / n)))

    def as_dict(self) -> dict[str, float | int | None]:
        """For JSON: rate, interval, counts."""
        low, high = self.interval()
        return {
            "rate": self.rate,
            "low": round(low, 4),
            "high": round(high, 4),
            "hits": self.hits,
            "of": self.of,
            "unscanned": self.unscanned,
        }


def auc(scores: Iterable[Scored]) -> float | None:
    """AUC of pairs of a score and whether the row is an attack; None unless there are both kinds."""
    scored = sorted(scores)
    positives = sum(attack for _, attack in scored)
    negatives = len(scored) - positives
    if not positives or not negatives:
        return None
    wins, below = 0.0, 0
    for _, tied in groupby(scored, key=lambda pair: pair[0]):
        attacks = [attack for _, attack in tied]
        level = len(attacks) - sum(attacks)
        wins += sum(attacks) * (below + level / 2)
        below += level
    return round(wins / (positives * negatives), 4)


def ece(scored: Sequence[Scored], bins: int = 10) -> float | None:
    """Expected calibration error; None without rows."""
    if not scored:
        return None
    error = 0.0
    for index in range(bins):
        inside = [(s, a) for s, a in scored if min(bins - 1, int(s * bins)) == index]
        if inside:
            error += abs(sum(s for s, _ in inside) - sum(a for _, a in inside)) / len(scored)
    return round(error, 4)


def recall_at(scored: Sequence[Scored], rate: float) -> Share | None:
    """Recall at the lowest threshold at which at most this share of the benign rows is refused.

    The interval is that of the recall at this threshold; it does not cover the uncertainty of the threshold itself.
    None unless there are both kinds.
    """
    benign = sorted((score for score, attack in scored if not attack), reverse=True)
    attacks = [score for score, attack in scored if attack]
    if not benign or not attacks:
        return None
    bound = benign[min(int(rate * len(benign)), len(benign) - 1)]
    return Share(sum(score > bound for score in attacks), len(attacks))


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Quantiles in milliseconds; empty without values."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    levels = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))] * 1000, 3) for name, q in levels.items()}
