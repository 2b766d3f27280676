"""Twin of sidecar/detectors/semantic/nearest_neighbours.py."""

from __future__ import annotations

import numpy as np
import tiny_model
from tiny_model import Rule, TinyEncoder

from sidecar.detectors.semantic.nearest_neighbours import NearestNeighbours
from sidecar.types import Channel


def hits(*rules: Rule, texts: tuple[str, ...], channel: Channel = Channel.DIRECT) -> list[tuple[str, int]]:
    """The matching rules and windows."""
    encoder = TinyEncoder()
    neighbours = NearestNeighbours(rules, encoder, tiny_model.manifest(similar_from=0.9))
    ids = [next(encoder.windows(text)).ids for text in texts]
    features = encoder.features(ids, [0] * len(ids)) if ids else np.zeros((0, 8), np.float32)
    return [(hit.rule.id, hit.window) for hit in neighbours.hits(features, [channel] * len(texts))]


def test_the_nearest_window_meets_the_rule() -> None:
    """Each rule reports the window nearest to its examples."""
    rules = Rule("A-1", ("leak", "attack leak")), Rule("B-1", ("doubt",))
    assert hits(*rules, texts=("calm", "attack leak", "calm leak")) == [("A-1", 1)]
    assert hits(*rules, texts=("doubt", "leak")) == [("A-1", 1), ("B-1", 0)]


def test_nothing_near_enough_meets_nothing() -> None:
    """Sharing half the words is not similar."""
    assert hits(Rule("A-1", ("attack leak",)), texts=("attack calm", "calm")) == []


def test_a_rule_holds_in_its_channels_only() -> None:
    """A rule for indirect text does not match direct text."""
    rule = Rule("A-1", ("leak",), channels=(Channel.INDIRECT,))
    assert hits(rule, texts=("leak",)) == []
    assert hits(rule, texts=("leak",), channel=Channel.INDIRECT) == [("A-1", 0)]


def test_retired_rules_and_other_kinds_are_left_out() -> None:
    """Rules without examples and retired ones cost nothing and find nothing."""
    assert hits(Rule("A-1", ()), Rule("B-1", ("leak",), status="retired"), texts=("leak",)) == []


def test_no_window_meets_nothing() -> None:
    """An empty text matches nothing."""
    assert hits(Rule("A-1", ("leak",)), texts=()) == []
