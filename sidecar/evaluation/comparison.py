"""Compares two runs of `sidecar eval` on the same file, by the lines that `--out` wrote.

The units on which the runs differ are counted both ways. Whether the difference may be chance is told by McNemar's
exact test (Q. McNemar, 1947): the two-sided binomial probability that of so many differences so few go one way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sidecar.errors import ConfigError
from sidecar.evaluation.formats import read_values

HINT = "without ids in the file the numbers of its lines are taken, which change with a line that is inserted"
Line = Mapping[str, Any]
SIDES = {"attack": ("newly caught", "newly missed"), "benign": ("newly blocked", "no longer blocked")}
"""For each label what it means that only the second, or only the first, run blocks."""


def read_run(path: Path) -> dict[str, Line]:
    """The lines of a run by their ids. Raises `ConfigError` for a file that no run wrote."""
    lines: dict[str, Line] = {}
    for number, value in read_values(path):
        if not isinstance(value, dict) or not {"id", "label", "action", "failure"} <= value.keys():
            raise ConfigError(f"{path}: line {number}", ["was not written by sidecar eval --out"])
        if value["id"] in lines:
            raise ConfigError(f"{path}: line {number}", [f"the id {str(value['id'])[:60]!r} is used twice"])
        lines[value["id"]] = value
    return lines


def compare(first: Mapping[str, Line], second: Mapping[str, Line]) -> dict[str, Any]:
    """Figures and ids of the differences, for attacks and benign units; units of one run only are counted apart.

    Raises `ConfigError` if most ids are of one run only or stand for other texts: these are not runs on the same file.
    """
    common = [name for name in first if name in second]
    shared = [name for name in common if _same_text(first[name], second[name])]
    if len(shared) < min(len(first), len(second)) / 2:
        reason = f"of {len(first)} and {len(second)} units only {len(shared)} have the same id and text"
        raise ConfigError("the runs cannot be compared", [f"{reason}; {HINT}"])
    figures: dict[str, Any] = {
        "shared": len(shared),
        "only_first": len(first) - len(common),
        "only_second": len(second) - len(common),
        "other_text": len(common) - len(shared),
        "relabelled": sum(first[name]["label"] != second[name]["label"] for name in shared),
    }
    return figures | {label: _side(label, shared, first, second) for label in SIDES}


def _same_text(first: Line, second: Line) -> bool:
    """Whether the lines may be about one text. Lines of earlier versions do not say."""
    return "check" not in first or "check" not in second or first["check"] == second["check"]


def _side(label: str, shared: Sequence[str], first: Mapping[str, Line], second: Mapping[str, Line]) -> dict[str, Any]:
    names = [name for name in shared if first[name]["label"] == label == second[name]["label"]]
    scanned = [name for name in names if not (first[name]["failure"] or second[name]["failure"])]
    gained = [name for name in scanned if _blocked(second[name]) and not _blocked(first[name])]
    lost = [name for name in scanned if _blocked(first[name]) and not _blocked(second[name])]
    return {
        "of": len(scanned),
        "could_not_scan": len(names) - len(scanned),
        "first": sum(_blocked(first[name]) for name in scanned),
        "second": sum(_blocked(second[name]) for name in scanned),
        "gained": gained,
        "lost": lost,
        "p": chance(len(gained), len(lost)),
    }


def _blocked(line: Line) -> bool:
    return bool(line["action"] == "block")


def chance(gained: int, lost: int) -> float:
    """McNemar's exact two-sided probability that such a difference arises by chance; 1 without a difference."""
    number, fewer = gained + lost, min(gained, lost)
    tail = sum(math.comb(number, count) for count in range(fewer + 1))
    return min(1.0, round(2 * tail / 2**number, 6)) if number else 1.0
