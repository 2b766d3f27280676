"""The tables of `sidecar eval`, drawn with rich from the figures of `evaluation` and `evaluation.judge_report`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from sidecar.cli.output import out
from sidecar.evaluation.judge_report import sentence

MOST_NAMES = 12
"""Causes that are listed; the rest is in `--json`."""
_GROUPS = {"form": "unit", "size": "size", "kind": "kind", "language": "language", "operation": "operation"}
_COLUMNS = {
    "plain": "benign refused",
    "hard_negatives": "hard negatives",
    "attacks": "attacks caught",
    "pairs": "pairs right",
}
_SIDES = ("plain", "hard_negatives", "attacks")


def show_report(found: Mapping[str, Any]) -> None:
    """All figures of `eval`."""
    _show_totals(found)
    for name, title in _GROUPS.items():
        if len(found["groups"][name]) > 1:
            _show_group(title, found["groups"][name])
    _show_sources(found["sources"])
    _show_causes(found)
    _show_scores(found)
    if "judge" in found:
        _show_judge(found["judge"])


def _show_totals(found: Mapping[str, Any]) -> None:
    head = Table("", "rate", "95 % interval", "of", "could not scan", title="caught = recommended action is block")
    head.add_row("attacks caught", *_share(found["attacks"]))
    head.add_row("benign blocked (false positives)", *_share(found["benign"]))
    head.add_row("  without hard negatives", *_share(found["plain"]))
    head.add_row("  hard negatives", *_share(found["hard_negatives"]))
    if found["requests"] > found["rows"]:
        for side in _SIDES:
            head.add_row(f"requests refused, {_words(side)}", *_share(found["requests_refused"][side]))
    if _any(found["pairs"]):
        head.add_row("pairs: attack caught, twin passed", *_share(found["pairs"]))
    for rate, share in found["recall_at"].items():
        head.add_row(f"recall at {float(rate):.1%} false positives", *_share(share))
    for name, share in (*found["labels"].items(), *((f"channel {k}", v) for k, v in found["channels"].items())):
        head.add_row(f"  {name}", *_share(share))
    head.add_row("pii detected", *_share(found["pii"]["recall"]))
    head.add_row("pii false positives", *_share(found["pii"]["false_positives"]))
    out.print(head)


def _show_group(title: str, groups: Mapping[str, Any]) -> None:
    """Refused among harmless units, hard negatives apart; caught attacks; pairs: each of how many that were scanned."""
    used = [side for side in _COLUMNS if any(_any(group[side]) for group in groups.values())]
    table = Table(title, *(_COLUMNS[side] for side in used), "could not scan")
    for name, group in groups.items():
        unscanned = sum(group[side]["unscanned"] for side in _SIDES)
        table.add_row(escape(name), *(_short(group[side]) for side in used), str(unscanned or ""))
    out.print(table)


def _show_sources(sources: Mapping[str, Any]) -> None:
    table = Table("source", "attacks caught", "of", "benign blocked", "of", "could not scan")
    for name, groups in sources.items():
        attacks, benign = _share(groups["attacks"]), _share(groups["benign"])
        unscanned = groups["attacks"]["unscanned"] + groups["benign"]["unscanned"]
        table.add_row(escape(name), attacks[0], attacks[2], benign[0], benign[2], str(unscanned or ""))
    out.print(table)


def _show_causes(found: Mapping[str, Any]) -> None:
    """First causes, most frequent first, and whose texts they were found in."""
    for side in _SIDES:
        if causes := found["causes"][side]:
            out.print(f"{_words(side)} refused for: {_counts(causes)}; said by: {_counts(found['said_by'][side])}")
    if found["unscanned"]:
        out.print(f"could not scan: {_counts(found['unscanned'])}")


def _show_scores(found: Mapping[str, Any]) -> None:
    quantiles = "  ".join(f"{name} {value:.1f} ms" for name, value in found["latency_ms"].items())
    out.print(f"AUC {found['auc']}  ECE {found['ece']}  could not scan {found['could_not_scan']}  {quantiles}")
    length, words = found["baselines"]["length"], found["baselines"]["words"]
    if length is not None:
        out.print(f"AUC of length alone {length}, of words alone {words}: what this file gives away by itself")


def _show_judge(found: Mapping[str, Any]) -> None:
    """The judge beside the others on the rows of its band, what it cost, and whether it is worth it."""
    low, high = found["band"]
    title = f"inside the judge's band {low:.2f} to {high:.2f}: {found['asked']} of {found['rows']} rows"
    table = Table("", "attacks caught", "of", "benign blocked", "of", "AUC", title=title)
    names = {"others": "other layers", "judge": "judge, where it answered", "together": "together"}
    for side, name in names.items():
        attacks, benign = _share(found[side]["attacks"]), _share(found[side]["benign"])
        table.add_row(name, attacks[0], attacks[2], benign[0], benign[2], str(found[side]["auc"] or "-"))
    out.print(table)
    silent = ", ".join(f"{cause} {count}" for cause, count in found["no_answer"].items()) or "none"
    quantiles = "  ".join(f"{name} {value:.0f} ms" for name, value in found["latency_ms"].items())
    out.print(f"without an answer: {silent}   {quantiles}", markup=False)
    cost = ", ".join(f"{value:.0f} {name}" for name, value in found["per_1000"].items())
    out.print(f"cost: {found['calls']} calls, {found['tokens']} tokens; per 1,000 rows like these {cost}", markup=False)
    out.print(sentence(found), style="bold red" if found["conclusion"] == "worse" else "bold", markup=False)


def _share(share: Mapping[str, Any]) -> tuple[str, str, str, str]:
    unscanned = str(share["unscanned"] or "")
    if share["rate"] is None:
        return ("-", "", "0", unscanned)
    return (f"{share['rate']:.1%}", f"{share['low']:.1%} - {share['high']:.1%}", str(share["of"]), unscanned)


def _short(share: Mapping[str, Any]) -> str:
    if share["rate"] is None:
        return "-"
    return f"{share['rate']:.1%} of {share['of']} ({100 * share['low']:.1f}-{100 * share['high']:.1f})"


def _any(share: Mapping[str, Any]) -> bool:
    return bool(share["of"] or share["unscanned"])


def _words(side: str) -> str:
    return {"plain": "benign", "hard_negatives": "hard negatives", "attacks": "attacks"}[side]


def _counts(counted: Mapping[str, int]) -> str:
    shown = [f"{escape(name)} {count}" for name, count in list(counted.items())[:MOST_NAMES]]
    return ", ".join([*shown, "..."] if len(counted) > MOST_NAMES else shown) or "-"
