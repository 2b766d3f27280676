"""Coverage of each rule on a file: where it fires, where it should not, and which rules overlap.

For rule authors (`sidecar check --coverage FILE`). A rule that never fires may be broken or superfluous, one that only
fires where another does may be retired, and one that fires on benign rows causes false positives. Rules of layers that
are not configured are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sidecar.errors import ConfigError
from sidecar.evaluation import Outcome, Row, read_rows
from sidecar.policy import Policy, Rule
from sidecar.types import LayerName

OVERLAP = 0.9
"""Share of a rule's rows on which another rule fires, too, from which the two overlap."""
FEWEST = 3
"""Rows below which an overlap may be chance."""


def read(path: Path) -> list[Row]:
    """A labelled file (`.jsonl`, `.jsonl.gz`), or any other file as benign texts, one per line.

    Lines that begin with `# ` are comments. Raises `ConfigError`.
    """
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return read_rows(path)
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read", [str(error)]) from None
    return [
        Row(id=str(number), text=line, labels=frozenset(), benign=True)
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("# ")
    ]


def report(policy: Policy, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Plain data: the rules that never fired, the figures of those that did, and the overlaps."""
    rows_by_rule = _rows_by_rule(outcomes)
    rules = [rule for rule in policy.rules if rule.status != "retired" and _layer(rule) in _layers(outcomes)]
    return {
        "rows": len(outcomes),
        "rules": len(rules),
        "never": [rule.id for rule in rules if rule.id not in rows_by_rule],
        "fired": [_figures(rule, rows_by_rule, outcomes) for rule in rules if rule.id in rows_by_rule],
        "overlaps": list(_overlaps(rows_by_rule)),
    }


def _rows_by_rule(outcomes: Sequence[Outcome]) -> dict[str, set[int]]:
    """For each rule the numbers of the rows on which it fired."""
    rows_by_rule: dict[str, set[int]] = {}
    for number, outcome in enumerate(outcomes):
        for finding in outcome.verdict.findings:
            rows_by_rule.setdefault(finding.rule, set()).add(number)
    return rows_by_rule


def _layer(rule: Rule) -> LayerName:
    if rule.similar_to:
        return LayerName.SEMANTIC
    return LayerName.LLM_JUDGE if rule.question else LayerName.RULES


def _layers(outcomes: Sequence[Outcome]) -> set[LayerName]:
    return {report.layer for outcome in outcomes for report in outcome.verdict.reports}


def _figures(rule: Rule, rows_by_rule: Mapping[str, set[int]], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Rows by kind; `alone` counts attacks on which no other rule fired."""
    rows = rows_by_rule[rule.id]
    elsewhere = {number for other_rule, numbers in rows_by_rule.items() if other_rule != rule.id for number in numbers}
    attacks = {number for number in rows if outcomes[number].row.attack}
    return {
        "rule": rule.id,
        "title": rule.title,
        "status": rule.status,
        "rows": len(rows),
        "attacks": len(attacks),
        "alone": len(attacks - elsewhere),
        "benign": sum(outcomes[number].row.benign for number in rows),
    }


def _overlaps(rows_by_rule: Mapping[str, set[int]]) -> Iterator[dict[str, Any]]:
    """Pairs of rules of which the first adds little to the second."""
    for rule, rows in rows_by_rule.items():
        for other_rule, theirs in rows_by_rule.items():
            shared = len(rows & theirs)
            if rule != other_rule and len(rows) >= FEWEST and shared >= OVERLAP * len(rows):
                yield {"rule": rule, "within": other_rule, "rows": len(rows), "both": shared}
