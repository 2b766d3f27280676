"""Twin of sidecar/evaluation.py."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sidecar.errors import ConfigError
from sidecar.evaluation import Outcome, Row, Share, read_rows, report
from sidecar.types import Action, Channel, Label, LayerName, Verdict


def outcome(score: float, *labels: str, benign: bool = False, source: str = "s", **fields: object) -> Outcome:
    """A row and a verdict of this score."""
    row = Row("r", "text", frozenset(labels), benign, source, **fields)  # type: ignore[arg-type]
    action = Action.BLOCK if score >= 0.6 else Action.ALLOW
    threats = (Label.PII_DETECTED,) if "pii_detected" in labels else ()
    return Outcome(row, Verdict(score, action, threats, 1, LayerName.RULES), 0.002)


def test_attacks_and_benign_rows_are_counted_apart() -> None:
    """Recall is over attacks, false positives over benign rows, and PII-only rows are neither."""
    outcomes = [
        outcome(0.9, "jailbreak"),
        outcome(0.1, "prompt_injection", source="t"),
        outcome(0.7, benign=True, hard_negative=True),
        outcome(0.0, benign=True),
        outcome(0.9, "pii_detected"),
    ]
    found = report(outcomes)
    assert (found["attacks"]["hits"], found["attacks"]["of"]) == (1, 2)
    assert (found["benign"]["hits"], found["benign"]["of"]) == (1, 2)
    assert found["hard_negatives"]["rate"] == 1.0
    assert found["pii"]["recall"]["rate"] == 1.0
    assert found["sources"]["t"]["attacks"]["rate"] == 0.0
    assert found["labels"]["jailbreak"]["rate"] == 1.0


@pytest.mark.parametrize(
    ("attack", "benign", "auc"), [([0.9, 0.8], [0.1, 0.2], 1.0), ([0.5], [0.5], 0.5), ([0.1], [0.9], 0)]
)
def test_auc_is_the_share_of_pairs_in_the_right_order(attack: list[float], benign: list[float], auc: float) -> None:
    """Perfect order is 1, a tie one half, reversed 0."""
    rows = [outcome(s, "jailbreak") for s in attack] + [outcome(s, benign=True) for s in benign]
    assert report(rows)["auc"] == auc


def test_ece_is_zero_for_honest_scores_and_large_for_boasts() -> None:
    """Half of the rows at 0.5 being attacks is calibrated; benign rows at 1.0 are not."""
    honest = [outcome(0.5, "jailbreak"), outcome(0.5, benign=True)]
    assert report(honest)["ece"] == 0.0
    assert report([outcome(1.0, benign=True)])["ece"] == 1.0


def test_intervals_are_wilsons() -> None:
    """8 of 10 gives 0.490 to 0.943, as in the literature; nothing of nothing says nothing."""
    low, high = Share(8, 10).interval()
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert (Share(0, 0).rate, Share(0, 0).interval()) == (None, (0.0, 1.0))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_rows_are_read_plain_and_gzipped(tmp_path: Path, name: str) -> None:
    """Both forms give the same rows, blank lines are skipped."""
    lines = [{"id": "a", "text": "x", "labels": ["jailbreak"], "channel": "indirect"}, {"text": "y", "benign": True}]
    content = "\n\n".join(json.dumps(line) for line in lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    first, second = read_rows(tmp_path / name)
    assert (first.id, first.attack, first.channel) == ("a", True, Channel.INDIRECT)
    assert (second.id, second.benign) == ("3", True)


def test_bad_lines_are_named_all_at_once(tmp_path: Path) -> None:
    """A file with bad lines is refused with their numbers."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "x"}\n{"text": 5}\nnot json\n{"text": "x", "channel": "sideways"}\n[1]\n', "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_rows(path)
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["line 2", "line 3", "line 4", "line 5"]


@pytest.mark.parametrize("content", [None, b"\x1f\x8b broken", gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 9])
def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path, content: bytes | None) -> None:
    """An absent or damaged file is named."""
    path = tmp_path / "rows.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"rows\.jsonl\.gz"):
        read_rows(path)


def test_the_line_of_a_row_holds_no_text() -> None:
    """`--out` writes the verdict of a row, never its text."""
    line = outcome(0.9, "jailbreak").line()
    assert set(line) == {"id", "risk_score", "action", "threats", "layer_used", "latency_ms"}
