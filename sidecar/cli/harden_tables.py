"""Renders the figures of `sidecar harden` as tables, with rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from sidecar.cli.output import out
from sidecar.cli.terminal import plain

LONGEST_TEXT = 70
"""Characters of a mutated text in the table; `--json` has more."""


def show_figures(figures: Mapping[str, Any]) -> None:
    """How many attacks were caught, and a line for each class of disguise."""
    caught, through = figures["caught"], figures["through"]
    out.print(f"caught as they stand: {caught['hits']} of {caught['of']} attacks", markup=False)
    for name, words in (("could_not_scan", "could not be scanned"), ("not_changeable", "cannot be changed in place")):
        if figures[name]:
            out.print(f"{figures[name]} {words}", style="yellow", markup=False)
    if figures["classes"]:
        out.print(_table(figures["classes"]))
    colour = "yellow" if through["hits"] else "green"
    out.print(
        f"got through: {through['hits']} of {through['of']} attacks, after {figures['mutations']} mutations",
        style=f"bold {colour}",
        markup=False,
    )


def _table(classes: Mapping[str, Any]) -> Table:
    """Smallest change: the share of the characters that differ from the attack as it stands."""
    table = Table("class", "through", "of", "smallest change", "example", title="disguises")
    for name, figures in classes.items():
        through, smallest = figures["through"], figures["smallest"]
        example = (
            (f"{smallest['mutation']}, {smallest['change']:.0%}", plain(smallest["text"], LONGEST_TEXT))
            if smallest
            else ()
        )
        table.add_row(name, str(through["hits"]), str(through["of"]), *example)
    return table


def show_rules(figures: Mapping[str, Any], file: Path | None) -> None:
    """The proposed rules, the file that they were written to, and what no rule can find."""
    if not figures["passes"]:
        return
    if figures["rules"]:
        out.print(_rules_table(figures["rules"]))
    if figures["outvoted"]:
        names = ", ".join(f"{rule} {count}" for rule, count in figures["outvoted"].items())
        out.print(f"found by a rule that the model outvoted: {names}", markup=False)
    out.print(f"without a rule: {figures['without_rule']} of {len(figures['passes'])} mutations that got through")
    if file:
        out.print(f"written to {file}: add it to `policies`, and run `sidecar check`", markup=False)
    elif figures["rules"]:
        out.print("--rules OUT.yaml writes the rules to a policy file", style="dim", markup=False)


def _rules_table(rules: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("rule", "label", "finds", "title", title="proposed rules, status: test")
    for rule in rules:
        table.add_row(rule["id"], rule["label"], str(rule["texts"]), plain(rule["title"], LONGEST_TEXT))
    return table
