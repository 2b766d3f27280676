"""What operators change of rules without editing them: the settings `rules: {ID: {status, score}}`.

A rule keeps its patterns and its proof. The change is part of the policy's revision, by which decisions are known and
scans remembered.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from typing import Any

from sidecar.config import RuleOverride
from sidecar.errors import PolicyError
from sidecar.policy import Policy, Rule

SUGGESTIONS = 3


def switched(policy: Policy, switches: Mapping[str, RuleOverride]) -> Policy:
    """The policy with these changes. Raises `PolicyError` for rules that it does not have."""
    if not switches:
        return policy
    known = [rule.id for rule in policy.rules]
    if problems := [_unknown(name, known) for name in switches if name not in set(known)]:
        raise PolicyError("settings change rules that do not exist", problems)
    rules = tuple(_changed(rule, switches[rule.id]) if rule.id in switches else rule for rule in policy.rules)
    said = sorted((name, switch.status or "", switch.score) for name, switch in switches.items())
    revision = hashlib.sha256(f"{policy.revision} {said}".encode()).hexdigest()[:12]
    return Policy(rules=rules, revision=revision)


def _changed(rule: Rule, switch: RuleOverride) -> Rule:
    """A score given here holds on every channel."""
    update: dict[str, Any] = {}
    if switch.status is not None:
        update["status"] = "retired" if switch.status == "off" else switch.status
    if switch.score is not None:
        update |= {"score": switch.score, "indirect_score": None, "application_score": None}
        update |= {"context_score": switch.score} if rule.context_score is not None else {}
    return rule.model_copy(update=update)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.upper(), known, SUGGESTIONS)
    return f"rules.{name}: no rule has this id" + (f"; did you mean {', '.join(near)}?" if near else "")
