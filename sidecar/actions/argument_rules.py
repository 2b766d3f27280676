"""The rules on the arguments of a tool call as text (`policies/actions`): what they would do, wherever they come from.

The format is that of all policies. A pattern is searched in each argument as it was written, without normalizations:
a machine that reads the argument does not undo them either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sidecar.actions.arguments import leaves
from sidecar.config import RuleOverride
from sidecar.errors import PolicyError
from sidecar.policy import Policy, Rule, load
from sidecar.policy.rules import compiled, shipped_folder
from sidecar.policy.switches import apply_switches, is_action_rule
from sidecar.util.json import encodable

FOLDER = "actions"
PROVENANCE, LINK = "ACT-PROVENANCE", "ACT-LINK"
BY_PROVENANCE = frozenset({PROVENANCE, LINK})
"""Ids of findings that no pattern makes; they can be switched off as rules can."""
LINK_RULE = "ACT-105"
"""The rule that applies to the text of an answer, too."""


def action_policy() -> Policy:
    """The shipped rules on arguments. Raises `PolicyError`."""
    return _load(shipped_folder() / FOLDER)


@lru_cache(maxsize=1)
def _load(folder: Path) -> Policy:
    return load((folder,))


class ArgumentRules:
    """Searches arguments for the rules of a policy that block. `off`: ids of rules that are switched off.

    `switches`: the setting `rules`, of which those for rules on actions are meant. Raises `PolicyError` for unknown
    ones.
    """

    def __init__(self, policy: Policy, switches: Mapping[str, RuleOverride] | None = None) -> None:
        changes = {name: change for name, change in (switches or {}).items() if is_action_rule(name)}
        self.off = frozenset(name for name, change in changes.items() if change.status in {"off", "hint"})
        own = {name: change for name, change in changes.items() if name not in BY_PROVENANCE}
        ids = {rule.id for rule in policy.rules}
        if unknown := [f"rules.{name}: no rule on actions has this id" for name in own if name not in ids]:
            raise PolicyError("settings change rules that do not exist", unknown)
        self._rules = [rule for rule in apply_switches(policy, own).rules if rule.status == "block"]

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
