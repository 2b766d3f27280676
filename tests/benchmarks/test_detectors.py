"""Figures of the comparison of detectors."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import detectors
from benchmarks.detector_figures import Answer, area, both_right, figures, length_alone, recall, table
from benchmarks.detectors import theirs
from sidecar.config import Settings
from sidecar.evaluation import Row, read_rows
from sidecar.scan.selection import Selector
from sidecar.types import Label

ATTACK = Row("a", "x", frozenset({Label.PROMPT_INJECTION}), benign=False)
BENIGN = Row("b", "y", frozenset(), benign=True)


def test_area_counts_ties_as_half() -> None:
    """An attack with the same score as a benign row counts half."""
    assert area(np.array([1.0, 0.5]), np.array([0.5, 0.0])) == 0.875


def test_recall_takes_its_threshold_from_the_benign_rows() -> None:
    """The threshold is the score that at most the given share of benign rows exceeds."""
    attacks, benign = np.array([0.9, 0.6, 0.2]), np.array([0.8, 0.5, 0.1, 0.0])
    assert recall(attacks, benign, 0.25) == pytest.approx(2 / 3)
    assert recall(attacks, benign, 0.0) == pytest.approx(1 / 3)


def test_figures_tell_blocked_attacks_from_blocked_benign_rows() -> None:
    """Rows blocked at a detector's own threshold count as recall or false positives by their label."""
    answers = [Answer(0.9, True, 1.0), Answer(0.2, False, 3.0), Answer(0.1, True, 2.0)]
    result = figures([ATTACK, ATTACK, BENIGN], answers, np.random.default_rng(1))
    assert (result.caught, result.false_positives, result.ms_per_kb, result.auc) == (0.5, 1.0, 2000.0, 1.0)
    middle, low, high = result.recall_at["0.01"]
    assert low <= middle <= high


def test_length_alone_is_a_baseline_in_its_better_direction() -> None:
    """Short attacks are as good as long ones; at no false positives only those beyond every benign row count."""
    short, long = (replace(ATTACK, text="x" * length) for length in (1, 9))
    benign = [replace(BENIGN, text="y" * length) for length in (4, 6)]
    assert length_alone([short, short, *benign], 0.0) == 1.0
    assert length_alone([long, long, *benign], 0.0) == 1.0
    assert length_alone([short, long, *benign], 0.0) == 0.5


def test_a_pair_is_right_if_the_attack_is_caught_and_the_twin_passes() -> None:
    """Rows without a twin are no pair, and a set without pairs has no figure."""
    rows = [replace(row, pair=pair) for pair in ("1", "2") for row in (ATTACK, BENIGN)] + [replace(ATTACK, pair="3")]
    answers = [Answer(1.0, blocked, 1.0) for blocked in (True, False, True, True, True)]
    assert both_right(rows, answers) == (1, 2)
    assert both_right([ATTACK, BENIGN], answers[:2]) is None


def test_the_table_states_time_as_a_multiple_of_the_first_detector() -> None:
    """And pairs, shares and memory as they are."""
    rows = [replace(ATTACK, pair="1"), replace(BENIGN, pair="1")]
    measured = {
        name: figures(rows, [Answer(1.0, True, each), Answer(0.0, False, each)], np.random.default_rng(1))
        for name, each in (("ours", 2.0), ("theirs", 5.0))
    }
    lines = table(measured, {"ours": 100.0, "theirs": 200.4}).splitlines()
    assert lines[2].startswith("| ours | 100 % | 0.0 % | ")
    assert "| 1 of 1 | 1.00 |" in lines[2]
    assert (lines[2].endswith("| 1 | 100 |"), lines[3].endswith("| 2.5 | 200 |")) == (True, True)


def test_a_conversation_is_asked_about_text_by_text(tmp_path: Path) -> None:
    """Others get the texts that the sidecar scans: turns and tool definitions, and no roles or names of fields."""
    tool = {"type": "function", "function": {"name": "find", "description": "Finds a book.", "parameters": {}}}
    value = {
        "messages": [{"role": "user", "content": "One."}, {"role": "tool", "tool_call_id": "a", "content": "Two."}]
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(value | {"tools": [tool], "benign": True}) + "\n", "utf-8")
    (row,) = read_rows(tmp_path / "rows.jsonl")
    found = detectors.texts(row, Selector(Settings()), 100)
    assert {"One.", "Two."} <= set(found)
    assert any("Finds a book." in text for text in found)
    assert not any(text in {"user", "tool", "function"} for text in found)


def test_the_highest_text_decides_about_a_unit(tmp_path: Path) -> None:
    """A unit is blocked if one of its texts is; each text is asked once, and its time counts in every unit."""
    answers = {"a": [0.2, False, 1.0], "b": [0.9, True, 2.0]}
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "score.py").write_text(
        "import json, sys, time\n"
        f"for line in sys.stdin: print(json.dumps({answers}[json.loads(line)]))\ntime.sleep(1)\n",
        "utf-8",
    )
    found, megabytes = theirs(Path(sys.executable), "any", [["a", "b"], ["a"]], tmp_path / "peers" / "score.py")
    assert found == [Answer(0.9, True, 3.0), Answer(0.2, False, 1.0)]
    assert megabytes > 1


def test_a_peer_that_is_not_installed_is_named() -> None:
    """Without its package the run ends with the peer's name and the reason, not with an incomplete table."""
    with pytest.raises(SystemExit, match="stackone-defender failed: ModuleNotFoundError"):
        theirs(Path(sys.executable), "stackone-defender", [["x"]])


def test_every_peer_is_known_to_the_script_that_asks_them() -> None:
    """Benchmark and script have the same list of names."""
    text = (detectors.HERE / "peers" / "score.py").read_text("utf-8")
    assert all(f'"{name}"' in text for name in detectors.PEERS)


def test_the_page_has_every_detector_for_every_kind_of_unit() -> None:
    """The tables between its marks are those of one whole run."""
    tables = detectors.PAGE.read_text("utf-8").partition(detectors.BEGIN)[2].partition(detectors.END)[0]
    names = [*detectors.OURS, *detectors.PEERS]
    found = [line.split(" | ")[0].removeprefix("| ") for line in tables.splitlines() if line.startswith("| ")]
    assert [name for name in found if name in names] == names * len(detectors.OWN)
    assert [name for name in detectors.OWN if f"**{name.capitalize()}: " not in tables] == []
