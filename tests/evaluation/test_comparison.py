"""Twin of sidecar/evaluation/comparison.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.errors import ConfigError
from sidecar.evaluation.comparison import chance, compare, read_run


def run(**units: str) -> dict[str, dict[str, Any]]:
    """A run: for each id its label and action, as `a-block`; `fail` for one that could not be scanned."""
    kinds = {"a": "attack", "b": "benign"}
    return {
        name: {
            "id": name,
            "label": kinds[unit[0]],
            "action": unit[2:],
            "failure": "deadline" if unit[2:] == "fail" else None,
        }
        for name, unit in units.items()
    }


def test_units_that_differ_are_listed_for_attacks_and_benign_ones() -> None:
    """Those that one run could not scan are counted apart."""
    first = run(x="a-allow", y="a-block", z="a-block", f="a-fail", p="b-block", q="b-allow", gone="a-block")
    second = run(x="a-block", y="a-allow", z="a-block", f="a-block", p="b-allow", q="b-allow", new="b-allow")
    figures = compare(first, second)
    attacks, benign = figures["attack"], figures["benign"]
    assert (attacks["gained"], attacks["lost"], attacks["of"], attacks["could_not_scan"]) == (["x"], ["y"], 3, 1)
    assert (benign["gained"], benign["lost"], benign["first"], benign["second"]) == ([], ["p"], 1, 0)
    assert (figures["shared"], figures["only_first"], figures["only_second"]) == (6, 1, 1)


def test_a_unit_with_another_text_is_not_compared() -> None:
    """The same id in a changed file: counted, and neither gained nor lost."""
    first, second = run(x="a-block", y="a-block", z="a-allow"), run(x="a-block", y="a-block", z="a-block")
    for lines, word in ((first, "old"), (second, "new")):
        lines["z"]["check"] = word
    figures = compare(first, second)
    assert (figures["shared"], figures["other_text"], figures["attack"]["gained"]) == (2, 1, [])


def test_runs_on_other_files_are_an_error() -> None:
    """No id in common, or line numbers that an inserted line has moved: no table with p = 1.0."""
    numbered = [run(**{f"{number}": "a-block" for number in range(start, 9)}) for start in (1, 2)]
    for number, line in numbered[0].items():
        line["check"] = number
    for number, line in numbered[1].items():
        line["check"] = str(int(number) - 1)
    for first, second in ((run(a="a-block"), run(b="a-block")), numbered):
        with pytest.raises(ConfigError, match="only 0 have the same id and text"):
            compare(first, second)


def test_a_unit_with_another_label_is_not_compared() -> None:
    """It is counted."""
    figures = compare(run(x="a-block"), run(x="b-block"))
    assert (figures["relabelled"], figures["attack"]["of"], figures["benign"]["of"]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 5, 1.0), (10, 0, 0.001953), (8, 2, 0.109375)]
)
def test_chance_is_mcnemars_exact_test(gained: int, lost: int, p: float) -> None:
    """Binomial tails computed by hand: 2 / 2**10, and 2 * (1 + 10 + 45) / 2**10."""
    assert chance(gained, lost) == p
    assert chance(lost, gained) == p


@pytest.mark.parametrize("lines", [[{"text": "x", "label": "attack"}], [["x"]], 2 * [run(x="a-block")["x"]]])
def test_a_file_that_no_run_wrote_is_an_error(tmp_path: Path, lines: list[object]) -> None:
    """With its line; so is an id that is there twice."""
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    with pytest.raises(ConfigError, match=f"line {len(lines)}"):
        read_run(tmp_path / "a.jsonl")
