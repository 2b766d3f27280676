"""Twin of sidecar/evaluation/pairing.py."""

from __future__ import annotations

import pytest

from sidecar.evaluation import Outcome, Row
from sidecar.evaluation.pairing import pairs, share
from sidecar.types import Action, LayerName, Verdict


def outcome(name: str, pair: str, *, attack: bool, verdict: str) -> Outcome:
    """A row that is blocked, allowed or could not be scanned."""
    row = Row(name, "x", frozenset({"jailbreak"} if attack else ()), not attack, pair=pair)
    action = Action.ALLOW if verdict == "allow" else Action.BLOCK
    return Outcome(
        row, Verdict(0.5, action, (), 1, LayerName.RULES, failure="deadline" if verdict == "?" else None), 0.1
    )


@pytest.mark.parametrize("twin", [("clean", ""), ("other", "clean")])
@pytest.mark.parametrize(
    ("attack", "harmless", "expected"),
    [
        ("block", "allow", (1, 1, 0)),
        ("block", "block", (0, 1, 0)),
        ("allow", "allow", (0, 1, 0)),
        ("block", "?", (0, 0, 1)),
        ("?", "allow", (0, 0, 1)),
    ],
)
def test_a_pair_is_right_where_the_attack_is_caught_and_its_twin_passes(
    twin: tuple[str, str], attack: str, harmless: str, expected: tuple[int, int, int]
) -> None:
    """With the id of the clean document as `pair`, or the same `pair` on both; what was not scanned is left out."""
    rows = [outcome("bad", "clean", attack=True, verdict=attack), outcome(*twin, attack=False, verdict=harmless)]
    assert tuple(share(pairs(rows))) == expected


def test_an_attack_without_its_twin_is_no_pair() -> None:
    """Two attacks on the same document are two pairs."""
    rows = [outcome(name, "clean", attack=True, verdict="block") for name in "ab"]
    assert pairs(rows) == []
    assert len(pairs([*rows, outcome("clean", "", attack=False, verdict="allow")])) == 2
