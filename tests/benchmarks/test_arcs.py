"""Twin of benchmarks/arcs.py."""

from __future__ import annotations

from benchmarks.arcs import unit

TURNS = [
    {"role": role, "content": f"{role} {number}"} for number, role in enumerate(("system", "user", "assistant") * 2)
]


def test_an_attack_ends_before_its_last_user_turn() -> None:
    """What is caught by the last turn alone would count as caught in time otherwise."""
    arc = {"id": "a", "lang": "en", "trick": "small steps", "messages": TURNS}
    attack, harmless = unit({**arc, "benign": False}), unit({**arc, "benign": True, "trick": None})
    assert [message["content"] for message in attack["messages"]][-1] == "system 3"
    assert (attack["labels"], attack["kind"]) == (["jailbreak"], "small steps")
    assert (harmless["messages"], harmless["labels"], harmless["kind"]) == (TURNS, [], "harmless")
