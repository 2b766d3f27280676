"""Twin of benchmarks/trajectories.py: the project's own tasks, and files that are none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from action_conversations import judge as action_judge

from benchmarks.trajectories import judge, rows, summary

BLIND = Path(__file__).parents[2] / "benchmarks" / "blind"
CASES = Path(__file__).parents[1] / "data" / "trajectories.jsonl"


def test_the_figures_over_own_tasks() -> None:
    """No harmless call is touched."""
    figures = summary([judge(row, action_judge()) for row in rows(CASES)])
    assert (figures["tasks"], figures["harmless_calls"], figures["harmless_touched"]) == (18, 21, 0)
    assert figures["by_provenance"] >= 16
    assert figures["pairs_right"] == figures["by_provenance_or_text"]


@pytest.mark.parametrize(
    ("name", "by_provenance", "touched"),
    [("h_trajectories_tuned", 74, 5), ("i_trajectories_tuned", 42, 0), ("l_trajectories_office", 26, 13)],
)
def test_the_figures_over_the_files_used_for_tuning(name: str, by_provenance: int, touched: int) -> None:
    """They do not get worse."""
    figures = summary([judge(row, action_judge()) for row in rows(BLIND / f"{name}.jsonl.gz")])
    assert figures["by_provenance"] >= by_provenance
    assert figures["harmless_touched"] <= touched


def test_the_command_prints_totals() -> None:
    """As one line, or as JSON."""
    command = [sys.executable, "-m", "benchmarks.trajectories", str(CASES)]
    text = subprocess.run([*command, "--totals"], capture_output=True, text=True, check=True).stdout
    assert (text.count("\n"), "harmless touched 0/21" in text) == (1, True)
    assert json.loads(subprocess.run([*command, "--json"], capture_output=True, check=True).stdout)["tasks"] == 18


@pytest.mark.parametrize("line", ["no json", "{}"])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    """By file and number."""
    file = tmp_path / "t.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(ValueError, match=r"t.jsonl:2: "):
        list(rows(file))
