"""`history: strip`: removes refused turns from a conversation, so that one attack does not block it for ever.

Clients send the whole conversation with every request, including refused turns. Only turns before the latest user turn
can be removed; an attack in the latest one still blocks. A user turn is removed together with the replies to it. The
caller scans the rest again before forwarding it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from sidecar.extraction.json_body import JsonValue
from sidecar.types import Finding, Verdict
from sidecar.util import json

MAX_PASSES = 4
"""Scans per request: a layer may stop at the first turn that it finds, so removal can take several passes."""
_LISTS = ("messages", "input", "contents")
_RESULTS = ("functionResponse", "function_response", "toolResult")


def strip_refused_turns(document: JsonValue, verdict: Verdict, threshold: float) -> tuple[JsonValue, int] | None:
    """The body without the turns that `verdict` blocks, and their number; None if that is not possible.

    `document` is not modified.
    """
    name, turns = _turns(document)
    if not isinstance(document, dict) or not turns:
        return None
    users = [index for index, turn in enumerate(turns) if _is_user_prompt(turn)]
    refused = _refused_turns(name, _blocking_findings(verdict, threshold))
    if not refused or not refused <= set(users[:-1]):
        return None
    # Equal texts are scanned once, so only the first occurrence has a finding.
    refused_texts = {_serialized(turns[index]) for index in refused}
    refused |= {index for index in users[:-1] if _serialized(turns[index]) in refused_texts}
    remaining = [turn for index, turn in enumerate(turns) if _user_turn_of(index, users) not in refused]
    return {**document, name: remaining}, len(refused)


def _serialized(turn: JsonValue) -> bytes:
    return json.dumps(turn, json.LARGE, option=json.SORTED)


def _turns(document: JsonValue) -> tuple[str, list[JsonValue]]:
    body = document if isinstance(document, dict) else {}
    return next(((name, value) for name in _LISTS if isinstance(value := body.get(name), list)), ("", []))


def _is_user_prompt(turn: JsonValue) -> bool:
    """Whether this is a user turn but not a tool result, which belongs to the tool call before it."""
    if not isinstance(turn, dict) or turn.get("role") != "user":
        return False
    content = turn.get("parts", turn.get("content"))
    parts = content if isinstance(content, list) else [content]
    return not any(isinstance(part, dict) and _is_result(part) for part in parts)


def _is_result(part: dict[str, JsonValue]) -> bool:
    return part.get("type") == "tool_result" or any(name in part for name in _RESULTS)


def _blocking_findings(verdict: Verdict, threshold: float) -> Iterable[Finding]:
    """The findings that reach the threshold; if none does, those with the highest score."""
    deciding = [finding for finding in verdict.findings if finding.decides]
    lowest = min(threshold, max((finding.score for finding in deciding), default=0.0))
    return (finding for finding in deciding if finding.score >= lowest)


def _refused_turns(name: str, findings: Iterable[Finding]) -> set[int]:
    """Indices of the turns with findings; -1 for one outside the turns. Findings in joined turns are skipped."""
    parts = (finding.path.split(".") for finding in findings if finding.path != name)
    return {int(path[1]) if path[0] == name and path[1].isdigit() else -1 for path in parts if len(path) > 1}


def _user_turn_of(index: int, users: Sequence[int]) -> int:
    """Index of the user turn that a turn belongs to: itself, or the one that it replies to; -1 if none."""
    position = bisect_right(users, index)
    return users[position - 1] if position else -1
