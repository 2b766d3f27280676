"""Rule switches: what operators change of rules without editing them, the settings `rules: {ID: {status, score}}`.

A rule keeps its patterns and its examples. The changes are part of the policy's revision, which decisions record and
scan caches use as key.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from sidecar.config import RuleOverride
from sidecar.errors import PolicyError
from sidecar.policy import Policy, Rule

MAX_SUGGESTIONS = 3
ACTION_PREFIX = "ACT-"
"""Rules on actions are a policy of their own (`sidecar.actions.argument_rules`), with changes in the same setting.

No other rule can be changed under a name that begins so.
"""


def apply_switches(policy: Policy, switches: Mapping[str, RuleOverride]) -> Policy:
    """The policy with these changes, without those of rules on actions. Raises `PolicyError` for unknown rules."""
    return apply_changes(policy, {name: switch for name, switch in switches.items() if not is_action_rule(name)})


def apply_changes(policy: Policy, switches: Mapping[str, RuleOverride]) -> Policy:
    """The policy with all of these changes. Raises `PolicyError` for unknown rules."""
    if not switches:
        return policy
    if problems := unknown_rules(policy, switches):
        raise PolicyError("settings change rules that do not exist", [f"rules.{problem}" for problem in problems])
    rules = tuple(_switch_rule(rule, switches[rule.id]) if rule.id in switches else rule for rule in policy.rules)
    changes = sorted((name, switch.status or "", switch.score) for name, switch in switches.items())
    revision = hashlib.sha256(f"{policy.revision} {changes}".encode()).hexdigest()[:12]
    return policy.model_copy(update={"rules": rules, "revision": revision})


def _switch_rule(rule: Rule, switch: RuleOverride) -> Rule:
    """A score set here applies on every channel."""
    update: dict[str, Any] = {}
    if switch.status is not None:
        update["status"] = "retired" if switch.status == "off" else switch.status
    if switch.score is not None:
        update |= {"score": switch.score, "indirect_score": None, "application_score": None}
        update |= {"context_score": switch.score} if rule.context_score is not None else {}
    return rule.model_copy(update=update)


def unknown_rules(policy: Policy, names: Iterable[str], more: Iterable[str] = ()) -> list[str]:
    """The names that are no rule's id, one line each, with ids that are like it. `more`: ids without a rule."""
    ids = [*(rule.id for rule in policy.rules), *more]
    return [_unknown(name, ids) for name in names if name not in set(ids)]


def is_action_rule(name: str) -> bool:
    """Whether an id is that of a rule on actions."""
    return name.upper().startswith(ACTION_PREFIX)


def _unknown(name: str, ids: list[str]) -> str:
    suggestions = difflib.get_close_matches(name.upper(), ids, MAX_SUGGESTIONS)
    return f"{name}: no rule has this id" + (f"; did you mean {', '.join(suggestions)}?" if suggestions else "")
