"""Renders the figures of `evaluation` and `evaluation.judge_report` as tables for `sidecar eval`, with rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from sidecar.cli.output import out
from sidecar.cli.terminal import plain
from sidecar.evaluation.comparison import SIDES
from sidecar.evaluation.html_report import Wrong
from sidecar.evaluation.judge_report import sentence

UNNAMED = "?"
"""The source of units that name none."""
MOST_NAMES = 12
"""Causes that are listed; `--json` has all of them."""
LONGEST_TEXT = 120
"""Characters of a wrong text in the table."""
_GROUPS = {"form": "unit", "size": "size", "kind": "kind", "language": "language", "operation": "operation"}
_COLUMNS = {
    "plain": "benign refused",
    "hard_negatives": "hard negatives",
    "attacks": "attacks caught",
    "pairs": "pairs right",
}
_ONE_SIDED = {
    "benign": "no unit is benign: nothing here tells how much ordinary text is blocked",
    "attacks": "no unit is an attack: nothing here tells what is caught",
}
_SIDES = ("plain", "hard_negatives", "attacks")


def show_report(figures: Mapping[str, Any]) -> None:
    """All figures of `eval`, the two that matter most first."""
    attacks, benign = figures["attacks"], figures["benign"]
    out.print(f"{_count(attacks)} attacks caught, {_count(benign)} harmless units blocked", style="bold")
    _show_totals(figures)
    if figures["unlabelled"]:
        out.print(f"{figures['unlabelled']} units had no label and count nowhere", style="yellow")
    if missing := [words for side, words in _ONE_SIDED.items() if not figures[side]["of"] + figures[side]["unscanned"]]:
        out.print(missing[0], style="yellow")
    for name, title in _GROUPS.items():
        if len(figures["groups"][name]) > 1:
            _show_group(title, figures["groups"][name])
    if list(figures["sources"]) != [UNNAMED]:
        _show_sources(figures["sources"])
    _show_causes(figures)
    _show_scores(figures)
    if "judge" in figures:
        _show_judge(figures["judge"])


def show_errors(found: Iterable[Wrong] | None) -> None:
    """The wrong units with the first lines of their texts, in which control characters are escaped."""
    if found is None:
        return
    table = Table("id", "what", "score", "cause", "text", title="wrong units")
    for one in found:
        table.add_row(plain(one.id), one.kind, f"{one.score:.4f}", plain(one.cause), plain(one.text, LONGEST_TEXT))
    out.print(table if table.row_count else "no wrong unit")


def show_comparison(figures: Mapping[str, Any]) -> None:
    """What `eval diff` found: the counts of both runs, and the ids on which they differ."""
    table = Table("", "of", "first", "second", "gained", "lost", "p (McNemar)", title="blocked in two runs")
    for label in SIDES:
        side = figures[label]
        counts = (side["of"], side["first"], side["second"], len(side["gained"]), len(side["lost"]), side["p"])
        table.add_row("attacks" if label == "attack" else label, *map(str, counts))
    out.print(table)
    for label, (gained, lost) in SIDES.items():
        for words, name in ((gained, "gained"), (lost, "lost")):
            if ids := figures[label][name]:
                out.print(f"{words} ({len(ids)}): {', '.join(map(str, ids))}", markup=False)
    _show_differences(figures)


def _show_differences(figures: Mapping[str, Any]) -> None:
    apart = {"only in the first": "only_first", "only in the second": "only_second"}
    apart |= {"with another text": "other_text", "labelled otherwise": "relabelled"}
    if words := [f"{title} {figures[name]}" for title, name in apart.items() if figures[name]]:
        out.print(f"not compared: {', '.join(words)}", style="yellow", markup=False)


def _show_totals(figures: Mapping[str, Any]) -> None:
    """The two main rates, and the others of which the file holds any unit; `--json` has all."""
    head = Table("", "rate", "95 % interval", "of", "could not scan", title="caught = recommended action is block")
    for name, share in _totals(figures):
        if _any(share) or share is figures["attacks"] or share is figures["benign"]:
            head.add_row(name, *_share(share))
    out.print(head)


def _totals(figures: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "attacks caught", figures["attacks"]
    yield "benign blocked (false positives)", figures["benign"]
    if _any(figures["hard_negatives"]):
        yield "  without hard negatives", figures["plain"]
        yield "  hard negatives", figures["hard_negatives"]
    if figures["requests"] > figures["rows"]:
        for side in _SIDES:
            yield f"requests refused, {_words(side)}", figures["requests_refused"][side]
    yield "pairs: attack caught, twin passed", figures["pairs"]
    for rate, share in figures["recall_at"].items():
        if figures["benign"]["of"] * float(rate) >= 1:  # with fewer units it is the recall at none
            yield f"recall at {float(rate):.1%} false positives", share
    for name, share in figures["labels"].items():
        yield f"  {name}", share
    if len(figures["channels"]) > 1:
        for name, share in figures["channels"].items():
            yield f"  channel {name}", share
    if _any(figures["pii"]["recall"]):
        yield "pii detected", figures["pii"]["recall"]
        yield "pii false positives", figures["pii"]["false_positives"]


def _show_group(title: str, groups: Mapping[str, Any]) -> None:
    """Rates of refused benign units, hard negatives, caught attacks and pairs, each with the number scanned."""
    sides = [side for side in _COLUMNS if any(_any(group[side]) for group in groups.values())]
    table = Table(title, *(_COLUMNS[side] for side in sides), "could not scan")
    for name, group in groups.items():
        unscanned = sum(group[side]["unscanned"] for side in _SIDES)
        table.add_row(escape(name), *(_short(group[side]) for side in sides), str(unscanned or ""))
    out.print(table)


def _show_sources(sources: Mapping[str, Any]) -> None:
    table = Table("source", "attacks caught", "of", "benign blocked", "of", "could not scan")
    for name, groups in sources.items():
        attacks, benign = _share(groups["attacks"]), _share(groups["benign"])
        unscanned = groups["attacks"]["unscanned"] + groups["benign"]["unscanned"]
        table.add_row(escape(name), attacks[0], attacks[2], benign[0], benign[2], str(unscanned or ""))
    out.print(table)


def _show_causes(figures: Mapping[str, Any]) -> None:
    """Causes by frequency, and the sources of the texts they were found in."""
    for side in _SIDES:
        if causes := figures["causes"][side]:
            out.print(f"{_words(side)} refused for: {_counts(causes)}; said by: {_counts(figures['said_by'][side])}")
    if figures["unscanned"]:
        out.print(f"could not scan: {_counts(figures['unscanned'])}")


def _show_scores(figures: Mapping[str, Any]) -> None:
    quantiles = "  ".join(f"{name} {value:.1f} ms" for name, value in figures["latency_ms"].items())
    scores = "  ".join(f"{name.upper()} {_number(figures[name])}" for name in ("auc", "ece"))
    out.print(f"{scores}  could not scan {figures['could_not_scan']}  {quantiles}")
    length, words = (_number(figures["baselines"][name]) for name in ("length", "words"))
    if figures["baselines"]["length"] is not None:
        out.print(f"AUC of length alone {length}, of words alone {words}: what this file gives away by itself")


def _show_judge(figures: Mapping[str, Any]) -> None:
    """The judge beside the other layers on the rows of its band, its cost, and the conclusion."""
    low, high = figures["band"]
    title = f"inside the judge's band {low:.2f} to {high:.2f}: {figures['asked']} of {figures['rows']} rows"
    table = Table("", "attacks caught", "of", "benign blocked", "of", "AUC", title=title)
    names = {"others": "other layers", "judge": "judge, where it answered", "together": "together"}
    for side, name in names.items():
        attacks, benign = _share(figures[side]["attacks"]), _share(figures[side]["benign"])
        table.add_row(name, attacks[0], attacks[2], benign[0], benign[2], str(figures[side]["auc"] or "-"))
    out.print(table)
    silent = ", ".join(f"{cause} {count}" for cause, count in figures["no_answer"].items()) or "none"
    quantiles = "  ".join(f"{name} {value:.0f} ms" for name, value in figures["latency_ms"].items())
    out.print(f"without an answer: {silent}   {quantiles}", markup=False)
    cost = ", ".join(f"{value:.0f} {name}" for name, value in figures["per_1000"].items())
    out.print(
        f"cost: {figures['calls']} calls, {figures['tokens']} tokens; per 1,000 rows like these {cost}", markup=False
    )
    out.print(sentence(figures), style="bold red" if figures["conclusion"] == "worse" else "bold", markup=False)


def _number(value: float | None) -> str:
    return "-" if value is None else str(value)


def _count(share: Mapping[str, Any]) -> str:
    return f"{round((share['rate'] or 0) * share['of'])} of {share['of']}"


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


def _counts(counts: Mapping[str, int]) -> str:
    parts = [f"{escape(name)} {count}" for name, count in list(counts.items())[:MOST_NAMES]]
    return ", ".join([*parts, "..."] if len(counts) > MOST_NAMES else parts) or "-"
