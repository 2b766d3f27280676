"""The rules on the arguments of a tool call as text (`policies/actions`): what they would do, wherever they come from.

The format is that of all policies. A pattern is searched in each argument as it was written, without normalizations:
a machine that reads the argument does not undo them either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from sidecar.actions.arguments import leaves
from sidecar.config import RuleOverride
from sidecar.errors import PolicyError
from sidecar.policy import Policy, Rule, load, prepared
from sidecar.policy.rules import compiled, shipped_folder
from sidecar.policy.switches import apply_changes, is_action_rule, unknown_rules
from sidecar.util.json import encodable

FOLDER = "actions"
PROVENANCE, LINK = "ACT-PROVENANCE", "ACT-LINK"
BY_PROVENANCE = frozenset({PROVENANCE, LINK})
"""Ids of findings that no pattern makes; they can be switched off as rules can."""
LINK_RULE = "ACT-105"
"""The rule that applies to the text of an answer, too."""


@cache
def action_policy() -> Policy:
    """The shipped rules on arguments. Raises `PolicyError`."""
    policy = load((shipped_folder() / FOLDER,))
    prepared.forget()
    return policy


def action_switches(switches: Mapping[str, RuleOverride]) -> dict[str, RuleOverride]:
    """Those changes of the setting `rules` that are of rules on actions.

    Raises `PolicyError` for unknown rules, and for changes that would do nothing or another thing than they say.
    """
    changes = {name: change for name, change in switches.items() if is_action_rule(name)}
    if changes and (problems := [*unknown_rules(action_policy(), changes, BY_PROVENANCE), *_without_effect(changes)]):
        raise PolicyError("settings change rules on actions that cannot be", [f"rules.{line}" for line in problems])
    return changes


def _without_effect(changes: Mapping[str, RuleOverride]) -> Iterator[str]:
    for name, change in changes.items():
        if change.status == "hint":
            yield f"{name}: a rule on actions has the status off or block, not hint"
        if change.score is not None and name in BY_PROVENANCE:
            yield f"{name}: the score is the sum of the evidence; actions.threshold is what can be set"


class ArgumentRules:
    """Searches arguments for the rules of a policy that block. `off`: findings by provenance that are switched off.

    `switches`: as `action_switches` returns them.
    """

    def __init__(self, policy: Policy, switches: Mapping[str, RuleOverride] | None = None) -> None:
        changes = dict(switches or {})
        self.off = frozenset(name for name in BY_PROVENANCE if name in changes and changes.pop(name).status == "off")
        self._rules = [rule for rule in apply_changes(policy, changes).rules if rule.status == "block"]

    def in_arguments(self, arguments: Any) -> Iterator[tuple[Rule, str]]:
        """The rules that the arguments of a call meet, each with the name of the argument."""
        for name, text in leaves(arguments):
            yield from ((rule, name) for rule in self._rules if meets(rule, text))

    def in_text(self, text: str) -> Iterator[Rule]:
        """The rules on links that the text of an answer meets."""
        yield from (rule for rule in self._rules if rule.id == LINK_RULE and meets(rule, text))


def meets(rule: Rule, text: str) -> bool:
    """Whether a pattern of the rule matches in the text."""
    text = encodable(text)
    return any(compiled(pattern).search(text) for pattern in rule.patterns)
