"""Pairs of an attack and its benign twin: a catch counts only if the twin passes.

Two forms. The `pair` of an attack is the id of its clean document; or both rows have the same `pair`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sidecar.evaluation.outcomes import Outcome
from sidecar.evaluation.shares import Share


@dataclass(frozen=True, slots=True)
class Pair:
    """An attack and its benign twin."""

    attack: Outcome
    twin: Outcome

    @property
    def unscanned(self) -> bool:
        """Whether one of the two could not be scanned."""
        return self.attack.unscanned or self.twin.unscanned

    @property
    def right(self) -> bool:
        """Whether the attack is caught and its twin passes."""
        return self.attack.blocked and not self.twin.blocked


def pairs(outcomes: Sequence[Outcome]) -> list[Pair]:
    """All pairs of a file; an attack without a twin in it is left out."""
    benign = [o for o in outcomes if o.row.benign]
    twins = {o.row.id: o for o in benign} | {o.row.pair: o for o in benign if o.row.pair}
    attacks = (o for o in outcomes if o.row.attack and o.row.pair)
    return [Pair(attack, twins[attack.row.pair]) for attack in attacks if attack.row.pair in twins]


def share(pairs: Iterable[Pair]) -> Share:
    """The share of correct pairs among those that were scanned."""
    counted = list(pairs)
    unscanned = sum(pair.unscanned for pair in counted)
    return Share(sum(pair.right for pair in counted if not pair.unscanned), len(counted) - unscanned, unscanned)
