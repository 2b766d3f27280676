"""Nearest neighbours: the `similar_to` rules of the policies, on the embedding of the semantic model.

A window matches a rule if its embedding is near enough to one of the rule's examples; the score of the hit is the
rule's own. Examples are embedded once, when the layer is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from sidecar.detectors.semantic.artifact import Array, Manifest
from sidecar.detectors.semantic.encoder import Encoder
from sidecar.types import Channel, Label


class SimilarRule(Protocol):
    """The policy rule as this module needs it; rules of other kinds have no `similar_to`."""

    @property
    def id(self) -> str: ...  # noqa: D102 - see `sidecar.policy`
    @property
    def label(self) -> Label: ...  # noqa: D102
    @property
    def score(self) -> float: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def channels(self) -> Sequence[Channel]: ...  # noqa: D102
    @property
    def similar_to(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def topic(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule, the matching window and the cosine."""

    rule: SimilarRule
    window: int
    cosine: float


class NearestNeighbours:
    """The examples of all rules as unit vectors."""

    def __init__(self, rules: Sequence[SimilarRule], encoder: Encoder, manifest: Manifest) -> None:
        self._embedding_slice, self._min_cosine = slice(*manifest.similarity), manifest.similar_from
        self._rules = [rule for rule in rules if rule.similar_to and not rule.topic and rule.status != "retired"]
        vectors = [embed(encoder, rule.similar_to, self._embedding_slice) for rule in self._rules]
        self._rule_index = np.repeat(np.arange(len(vectors)), [len(v) for v in vectors])
        self._examples = np.concatenate(vectors) if vectors else None

    def hits(self, features: Array, channels: Sequence[Channel]) -> list[Hit]:
        """For each matching rule the nearest window. `features`: (windows, features)."""
        if self._examples is None or not len(features):
            return []
        cosines = unit(features[:, self._embedding_slice]) @ self._examples.T
        return [hit for number in range(len(self._rules)) if (hit := self._best(number, cosines, channels))]

    def _best(self, number: int, cosines: Array, channels: Sequence[Channel]) -> Hit | None:
        rule = self._rules[number]
        allowed = np.array([channel in rule.channels for channel in channels])
        nearest = np.where(allowed, cosines[:, self._rule_index == number].max(axis=1), -1.0)
        window = int(nearest.argmax())
        return Hit(rule, window, float(nearest[window])) if nearest[window] >= self._min_cosine else None


def embed(encoder: Encoder, examples: Sequence[str], embedding: slice) -> Array:
    """The embeddings of the first windows of these examples, as unit vectors."""
    ids = [window.ids for example in examples for window in islice(encoder.windows(example), 1)]
    return unit(encoder.features(ids, [0] * len(ids))[:, embedding])


def unit(vectors: Array) -> Array:
    """The rows at length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9), dtype=np.float32)
