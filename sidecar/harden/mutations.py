"""Mutations: one disguise, or two in an order in which both can be undone again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sidecar.errors import ConfigError
from sidecar.harden.disguises import CLASSES, Disguise

COMBINED = "combined"
"""The class of a mutation of two disguises."""
_ORDER = {kind: place for place, kind in enumerate(CLASSES)}
_REPEATABLE = frozenset({"wordings", "encodings", "framings"})
"""Classes of which one disguise may follow another."""
_PLAIN_LETTERS = frozenset({"morse", "katakana", "tag_characters"})
"""Disguises that leave out every character but plain letters."""
MIN_LETTERS = 0.8
"""The share of plain letters, of all characters but blanks, from which these keep enough of a text."""


@dataclass(frozen=True, slots=True)
class Step:
    """A disguise with its name and its class."""

    kind: str
    name: str
    disguise: Disguise

    def apply(self, text: str) -> str | None:
        """The disguised text; None if nothing changes, or if the text would be lost."""
        if self.name in _PLAIN_LETTERS and _letter_share(text) < MIN_LETTERS:
            return None
        disguised = self.disguise(text)
        return disguised if disguised != text else None


@dataclass(frozen=True, slots=True)
class Mutation:
    """Disguises in the order in which they are applied."""

    steps: tuple[Step, ...]

    @property
    def kind(self) -> str:
        """Its class."""
        return self.steps[0].kind if len(self.steps) == 1 else COMBINED

    @property
    def name(self) -> str:
        """The names of its disguises."""
        return " + ".join(step.name for step in self.steps)

    def apply(self, text: str) -> str | None:
        """The mutated text; None if a disguise does not fit it."""
        changed: str | None = text
        for step in self.steps:
            changed = step.apply(changed) if changed is not None else None
        return changed

    def reworded(self, text: str) -> str:
        """The text with the disguises alone that leave plain words: what stands below the others."""
        for step in self.steps:
            if step.kind == "wordings":
                text = step.disguise(text)
        return text


def singles(classes: Sequence[str] = tuple(CLASSES)) -> list[Mutation]:
    """Every disguise of these classes alone."""
    return [Mutation((Step(kind, name, f),)) for kind in classes for name, f in CLASSES[kind].items()]


def shuffled(mutations: Sequence[Mutation], randomness: random.Random) -> list[Mutation]:
    """In random order, in which every beginning holds about equally many of each class."""
    groups: Mapping[str, list[Mutation]] = {
        kind: [mutation for mutation in mutations if mutation.kind == kind] for kind in CLASSES
    }
    for group in groups.values():
        randomness.shuffle(group)
    order = list[Mutation]()
    for mixed in zip_longest(*groups.values()):
        turn = [mutation for mutation in mixed if mutation is not None]
        randomness.shuffle(turn)
        order += turn
    return order


def pairs(ranked: Sequence[tuple[float, Mutation]]) -> Iterator[Mutation]:
    """Two single disguises in turn, those of the lowest sum of scores first."""
    numbers = range(len(ranked))
    sums = sorted((ranked[a][0] + ranked[b][0], a, b) for a in numbers for b in numbers if a < b)
    for _, a, b in sums:
        yield from _in_order(ranked[a][1].steps[0], ranked[b][1].steps[0])


def _in_order(better: Step, worse: Step) -> Iterator[Mutation]:
    """Both in the order of their classes; none if both are of a class that is applied once."""
    if better.kind != worse.kind or better.kind in _REPEATABLE:
        yield Mutation(tuple(sorted((better, worse), key=lambda step: _ORDER[step.kind])))


def _letter_share(text: str) -> float:
    signs = "".join(text.split())
    return sum(sign.isascii() and sign.isalpha() for sign in signs) / max(1, len(signs))


def class_names(words: str | None) -> tuple[str, ...]:
    """The classes of a comma-separated list, all if there is none. Raises `ConfigError` for unknown ones."""
    if words is None:
        return tuple(CLASSES)
    names = {word.strip() for word in words.split(",")}
    if unknown := sorted(names - CLASSES.keys()):
        raise ConfigError("--classes", [f"{name!r} is none of {', '.join(CLASSES)}" for name in unknown])
    return tuple(name for name in CLASSES if name in names)
