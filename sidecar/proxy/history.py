"""`history: strip`: a conversation without the turns that are refused, so that one bad turn does not end it for ever.

Clients send the whole conversation with every request, the refused turn too. Only what lies before the
latest turn of the user can be left out; an attack in that one blocks as ever. A turn goes with what
answered it. What remains is scanned again by the caller before anything goes up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from sidecar.extraction.json_body import JsonValue
from sidecar.types import Finding, Verdict
from sidecar.util import json

MOST_PASSES = 4
"""Scans of one shortened conversation after another: a layer may stop at the first turn that it finds."""
_LISTS = ("messages", "input")


def without_refused(document: JsonValue, verdict: Verdict, threshold: float) -> tuple[JsonValue, int] | None:
    """The body without the turns that `verdict` objects to, and how many they were; None if that cannot be.

    `document` is left as it is.
    """
    name, turns = _turns(document)
    if not isinstance(document, dict) or not turns:
        return None
    users = [index for index, turn in enumerate(turns) if _is_question(turn)]
    refused = _refused(name, _weighty(verdict, threshold))
    if not refused or not refused <= set(users[:-1]):
        return None
    # The same text is scanned once, and so found in its first place only.
    said = {_written(turns[index]) for index in refused}
    refused |= {index for index in users[:-1] if _written(turns[index]) in said}
    kept = [turn for index, turn in enumerate(turns) if _asked_in(index, users) not in refused]
    return {**document, name: kept}, len(refused)


def _written(turn: JsonValue) -> bytes:
    return json.dumps(turn, json.LARGE, option=json.SORTED)


def _turns(document: JsonValue) -> tuple[str, list[JsonValue]]:
    found = document if isinstance(document, dict) else {}
    return next(((name, value) for name in _LISTS if isinstance(value := found.get(name), list)), ("", []))


def _is_question(turn: JsonValue) -> bool:
    """A turn of the user that is no result of a tool: such a one belongs to the call that it answers."""
    if not isinstance(turn, dict) or turn.get("role") != "user":
        return False
    content = turn.get("content")
    parts = content if isinstance(content, list) else []
    return not any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)


def _weighty(verdict: Verdict, threshold: float) -> Iterable[Finding]:
    """The findings that block by themselves; the strongest where none does."""
    deciding = [finding for finding in verdict.findings if finding.decides]
    bar = min(threshold, max((finding.score for finding in deciding), default=0.0))
    return (finding for finding in deciding if finding.score >= bar)


def _refused(name: str, findings: Iterable[Finding]) -> set[int]:
    """Turns by their index. What was found in several turns together names none, and is scanned again."""
    parts = (finding.path.split(".") for finding in findings if finding.path != name)
    return {int(path[1]) if path[0] == name and path[1].isdigit() else -1 for path in parts if len(path) > 1}


def _asked_in(index: int, users: Sequence[int]) -> int:
    """The turn of the user that a turn belongs to: itself, or the one that it answers."""
    before = bisect_right(users, index)
    return users[before - 1] if before else -1
