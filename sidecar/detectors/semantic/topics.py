"""Topics: `similar_to` rules with `topic`, on the embedding of the semantic model.

A user's turn meets a `topic: allowed` rule if all of its windows are far from all examples of the rule, and a
`topic: denied` rule if a window is near one of its examples, and nearer to it than to any allowed one. Near and far are
cosines of the model's manifest, with the mean of the background as origin. Only the first windows of turns of prose are
compared. A turn of a few words, or near one of the follow-ups, is never off topic: its topic is that of earlier turns.
Scores of attacks do not depend on this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidecar.detectors.semantic.artifact import Array, Manifest
from sidecar.detectors.semantic.background import BACKGROUND, FOLLOW_UPS
from sidecar.detectors.semantic.encoder import Encoder
from sidecar.detectors.semantic.nearest_neighbours import SimilarRule, embed, unit
from sidecar.detectors.semantic.prose import is_prose
from sidecar.normalization import encodable
from sidecar.types import Segment, Source

MIN_WORDS = 5
"""Words of a turn from which it has a topic of its own."""
MAX_WINDOWS = 4
"""First windows of a turn that are compared: some 300 words."""
SAME = 1e-4
"""Cosines that differ by less are equal: how a product is rounded depends on the shapes of the matrices."""
_READ = 4_000
"""First characters of a turn whose words are counted."""
_WORDS = re.compile("[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\u0e00-\u0eff]{2}|\\w+(?:['\u2019-]\\w+)*")
"""A word; of scripts that write none apart two letters count as one."""


@dataclass(frozen=True, slots=True)
class TopicHit:
    """A rule and its reason: the cosine and the number of the nearest example."""

    rule: SimilarRule
    evidence: str


class Topics:
    """The examples of all topic rules as unit vectors."""

    def __init__(self, rules: Sequence[SimilarRule], encoder: Encoder, manifest: Manifest) -> None:
        self._slice, (self._far, self._near) = slice(*manifest.similarity), manifest.topic_cosines
        self._rules = [rule for rule in rules if rule.topic and rule.status != "retired"]
        if self._rules:
            texts = [BACKGROUND, FOLLOW_UPS, *(rule.similar_to for rule in self._rules)]
            embeddings = [embed(encoder, lines, self._slice) for lines in texts]
            self._origin = embeddings[0].mean(axis=0)
            self._follow_ups, *self._examples = (unit(rows - self._origin) for rows in embeddings[1:])

    def windows_of(self, segment: Segment) -> int:
        """How many windows of a segment are to be embedded: none unless it is a user's turn with a topic of its own."""
        if not self._rules or segment.source is not Source.USER or segment.joined or segment.pieces:
            return 0
        text = encodable(segment.text[:_READ])
        return MAX_WINDOWS if len(_WORDS.findall(text)) >= MIN_WORDS and is_prose(text) else 0

    def hits(self, features: Sequence[Array]) -> list[TopicHit]:
        """The rules that a turn with these windows meets."""
        if not features:
            return []
        windows = unit(unit(np.stack(features)[:, self._slice]) - self._origin)
        is_follow_up = (windows @ self._follow_ups.T).max() >= self._near
        pairs = [(rule, windows @ rows.T) for rule, rows in zip(self._rules, self._examples, strict=True)]
        allowed = [cosines.max(axis=1) for rule, cosines in pairs if rule.topic == "allowed"]
        to_allowed = np.max(allowed, axis=0) if allowed else np.full(len(features), -1.0)
        pairs = [pair for pair in pairs if pair[0].topic == "denied" or not is_follow_up]
        return [hit for rule, cosines in pairs if (hit := self._hit(rule, cosines, to_allowed))]

    def _hit(self, rule: SimilarRule, cosines: Array, to_allowed: Array) -> TopicHit | None:
        """`cosines`: (windows, examples of the rule); `to_allowed`: of each window to the nearest allowed example."""
        window, example = (int(number) for number in np.unravel_index(cosines.argmax(), cosines.shape))
        nearest = float(cosines[window, example])
        if rule.topic == "allowed":
            is_met, limit = nearest < self._far, f"below {self._far:.2f}"
        else:
            is_met, limit = nearest >= self._near and nearest > to_allowed[window] + SAME, f"from {self._near:.2f}"
        evidence = f"cosine {nearest:.2f} to line {example + 1} of similar_to, the nearest; matches {limit}"
        return TopicHit(rule, evidence) if is_met else None
