"""Conversations for the tests of actions: a user, some results, in the form of chat completions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sidecar.actions.conversation import Conversation, ToolCall
from sidecar.actions.judge import ActionFinding, ActionJudge, action_judge
from sidecar.config import Actions, Settings

CASES = Path(__file__).parent / "data" / "trajectories.jsonl"
"""Tasks of the project's own authors, in the format of `benchmarks.trajectories`."""


def document(user: str, *results: str, system: str = "") -> dict[str, Any]:
    """The body of a request whose tools have returned these results."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": user})
    for number, result in enumerate(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return {"model": "m", "messages": messages}


def conversation(user: str, *results: str, system: str = "") -> Conversation:
    """The same, read."""
    return Conversation.read(document(user, *results, system=system))


def judge(**fields: Any) -> ActionJudge:
    """A judge that blocks."""
    created = action_judge(Settings(actions=Actions(**{"mode": "block"} | fields)))
    assert created is not None
    return created


def findings(body: dict[str, Any], name: str, arguments: Any, **fields: Any) -> list[ActionFinding]:
    """What the judge finds in a call."""
    return judge(**fields).review(body).call(ToolCall(name, arguments))
