"""The search of an adaptive attacker, who sees the score of each text and changes the next one accordingly.

For each attack every single disguise is tried in an order drawn by the seed, as far as two thirds of the budget go.
If none gets through, pairs of disguises are tried with the rest, those first that lowered the score most.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sidecar.evaluation import Outcome, Row
from sidecar.harden.mutations import Mutation, pairs, shuffled
from sidecar.harden.targets import Target, target
from sidecar.types import Action

DEFAULT_BUDGET = 170
"""Scans for an attack: two thirds of it are enough for every single disguise."""
Scan = Callable[[Row], Awaitable[Outcome]]
"""`UnitScanner.outcome`."""
HARMLESS = "Hello."
"""Stands in for a part of a unit, to see whether the rest passes."""
SHARE_OF_SINGLES = 2 / 3
"""The share of the budget for single disguises."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A mutation with its score. `text` is what it made of the target, kept only if it got through.

    `outvoted` names the `fallback` rules that found it, and did not decide because the model found the text harmless.
    """

    mutation: Mutation
    score: float
    through: bool
    failure: str | None = None
    text: str = ""
    outvoted: tuple[str, ...] = ()


@dataclass(slots=True)
class Result:
    """All attempts on one attack. `target` is None if it is not one text that can be changed in place."""

    plain: Outcome
    target: Target | None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def passes(self) -> list[Attempt]:
        """The attempts that got through, in the order in which they were found."""
        return [attempt for attempt in self.attempts if attempt.through]

    @property
    def passed_classes(self) -> set[str]:
        """The classes of these."""
        return {attempt.mutation.kind for attempt in self.passes}


class Search:
    """The attacker. `thorough`: each class is tried until one of its disguises gets through, not only the first."""

    def __init__(
        self, scan: Scan, mutations: Sequence[Mutation], *, budget: int, seed: int = 0, thorough: bool = False
    ) -> None:
        self._scan, self._mutations = scan, mutations
        self._budget, self._seed, self._thorough = budget, seed, thorough

    async def attack(self, plain: Outcome) -> Result:
        """Mutate one attack that is refused as it stands."""
        place = target(plain)
        result = Result(plain, place if place and await self._is_decisive(place) else None)
        if result.target is None:
            return result
        texts = {result.target.text}
        order = shuffled(self._mutations, self._randomness(result.target))
        await self._try(result, order, max(1, int(self._budget * SHARE_OF_SINGLES)), texts)
        if not result.passes:
            ranked = [(attempt.score, attempt.mutation) for attempt in result.attempts]
            await self._try(result, pairs(ranked), self._budget, texts)
        return result

    async def _is_decisive(self, place: Target) -> bool:
        """Whether the unit is refused for this text alone, and not for another of its texts as well."""
        return place.is_all or (await self._scan(place.changed(HARMLESS))).verdict.action is Action.ALLOW

    def _randomness(self, place: Target) -> random.Random:
        """The same for the same seed and attack, whatever the other attacks are."""
        return random.Random(f"{self._seed}\n{place.row.id}\n{place.text}")  # noqa: S311 - an order, not a secret

    async def _try(self, result: Result, mutations: Iterable[Mutation], limit: int, texts: set[str]) -> None:
        """Scan until something gets through, or `limit` attempts are made; `texts` are those scanned before."""
        assert result.target is not None  # noqa: S101 - of the caller
        for mutation in mutations:
            if len(result.attempts) >= limit or self._is_over(result):
                return
            if mutation.kind in result.passed_classes:
                continue
            text = mutation.apply(result.target.text)
            if text is not None and text not in texts:
                texts.add(text)
                result.attempts.append(await self._attempt(mutation, result.target, text))

    def _is_over(self, result: Result) -> bool:
        classes = {mutation.kind for mutation in self._mutations}
        return bool(result.passes) and (not self._thorough or result.passed_classes >= classes)

    async def _attempt(self, mutation: Mutation, place: Target, text: str) -> Attempt:
        verdict = (await self._scan(place.changed(text))).verdict
        through = verdict.action is Action.ALLOW
        score = 1.0 if verdict.failure else verdict.risk_score
        if not through:
            return Attempt(mutation, score, through, verdict.failure)
        outvoted = tuple(sorted({finding.rule for finding in verdict.findings if finding.fallback}))
        return Attempt(mutation, score, through, verdict.failure, text, outvoted)
