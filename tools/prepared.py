"""Writes the analysis of the shipped patterns beside them (`sidecar/policy/prepared.py`), after a change of a pattern.

Usage: python -m tools.prepared
"""

from __future__ import annotations

from sidecar import policy
from sidecar.actions.argument_rules import action_policy
from sidecar.detectors.rules.literals import analyse
from sidecar.policy import prepared
from sidecar.policy.rules import compiled_size


def analyses() -> dict[str, prepared.Analysis]:
    """The analysis of every shipped pattern, made now: those of the rules about texts, and about actions."""
    rules = (*policy.load().rules, *action_policy().rules)
    patterns = {pattern for rule in rules for pattern in rule.patterns}
    return {pattern: _analysis(pattern) for pattern in sorted(patterns)}


def _analysis(pattern: str) -> prepared.Analysis:
    clauses, max_letters = analyse(pattern)
    return prepared.Analysis(compiled_size(pattern), max_letters, clauses)


if __name__ == "__main__":
    (prepared.folder() / prepared.NAME).write_bytes(prepared.encode(analyses()))
