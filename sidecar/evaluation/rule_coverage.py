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
    met = _met(outcomes)
    rules = [rule for rule in policy.rules if rule.status != "retired" and _layer(rule) in _layers(outcomes)]
    return {
        "rows": len(outcomes),
        "rules": len(rules),
        "never": [rule.id for rule in rules if rule.id not in met],
        "fired": [_figures(rule, met, outcomes) for rule in rules if rule.id in met],
        "overlaps": list(_overlaps(met)),
    }


def _met(outcomes: Sequence[Outcome]) -> dict[str, set[int]]:
    """For each rule the numbers of the rows on which it fired."""
    met: dict[str, set[int]] = {}
    for number, outcome in enumerate(outcomes):
        for finding in outcome.verdict.findings:
            met.setdefault(finding.rule, set()).add(number)
    return met


def _layer(rule: Rule) -> LayerName:
    if rule.similar_to:
        return LayerName.SEMANTIC
    return LayerName.LLM_JUDGE if rule.question else LayerName.RULES


def _layers(outcomes: Sequence[Outcome]) -> set[LayerName]:
    return {report.layer for outcome in outcomes for report in outcome.verdict.reports}


def _figures(rule: Rule, met: Mapping[str, set[int]], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Rows by kind; `alone` counts attacks on which no other rule fired."""
    rows = met[rule.id]
    others = {number for other, numbers in met.items() if other != rule.id for number in numbers}
    attacks = {number for number in rows if outcomes[number].row.attack}
    return {
        "rule": rule.id,
        "title": rule.title,
        "status": rule.status,
        "rows": len(rows),
        "attacks": len(attacks),
        "alone": len(attacks - others),
        "benign": sum(outcomes[number].row.benign for number in rows),
    }


def _overlaps(met: Mapping[str, set[int]]) -> Iterator[dict[str, Any]]:
    """Pairs of rules of which the first adds little to the second."""
    for rule, rows in met.items():
        for other, theirs in met.items():
            shared = len(rows & theirs)
            if rule != other and len(rows) >= FEWEST and shared >= OVERLAP * len(rows):
                yield {"rule": rule, "within": other, "rows": len(rows), "both": shared}
