"""Twin of benchmarks/speed/agent_request.py."""

from __future__ import annotations

import json

from benchmarks.speed import agent_request
from benchmarks.speed.agent_request import Conversation, goals, sentences
from benchmarks.speed.goals import BARE, SEMANTIC


def body(request: bytes) -> dict[str, list[dict[str, str]]]:
    """The JSON of a request."""
    parsed: dict[str, list[dict[str, str]]] = json.loads(request.partition(b"\r\n\r\n")[2])
    return parsed


def test_a_request_has_the_size_of_an_agents_and_grows_by_a_turn() -> None:
    """Sixty kilobytes with 24 tools; a later request begins with the former one; another conversation is new."""
    pool = sentences()
    first, later = map(body, Conversation(pool, 1).requests(1))
    assert 55_000 < len(json.dumps(first)) < 75_000
    assert len(first["tools"]) == 24
    assert later["messages"][: len(first["messages"])] == first["messages"]
    assert len(later["messages"]) == len(first["messages"]) + 3
    other = body(next(Conversation(pool, 2).requests(0)))
    assert not {m["content"] for m in other["messages"] if m["role"] == "tool"} & {
        m["content"] for m in first["messages"]
    }


def test_goals_compare_round_by_round() -> None:
    """Warm to the bare proxy, cold as what it adds in passes of the model."""
    figures = {BARE: [{"cold_ms": 1.0, "warm_ms": 2.0}], SEMANTIC: [{"cold_ms": 61.0, "warm_ms": 5.0}]}
    assert [goal.value for goal in goals(figures, pass_ms=5.0)] == [2.5, 12.0]
    assert agent_request.TOOLS == 24
