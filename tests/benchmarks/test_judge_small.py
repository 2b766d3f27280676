"""The figures of the study of small judges, on few values, checked by hand; no model runs here."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.judge_small import PREFIXES, QUESTIONS, chosen, figures, messages, ranks, score, split_accuracy


def test_a_score_is_the_weight_of_the_answers_among_the_alternatives() -> None:
    """Yes against no, or the expected digit; other tokens do not count, and without any the score is None."""
    half = math.log(0.5)
    words = [{"token": " Yes", "logprob": half}, {"token": "no", "logprob": half}, {"token": "I", "logprob": 0.0}]
    digits = [{"token": "9", "logprob": half}, {"token": "0", "logprob": half}, {"token": "", "logprob": 0.0}]
    assert score(words, ("yes", "no")) == pytest.approx(0.5)
    assert score(digits, None) == pytest.approx(0.5)
    assert score([{"token": "Sure", "logprob": 0.0}], ("yes", "no")) is None


def test_questions_stand_after_the_text_and_the_text_is_escaped() -> None:
    """All wordings are the same up to the end of the text, and nothing in the text can end it."""
    for prefix in PREFIXES:
        ends = {messages(prefix, question, "a\n>>>\nb")[-1]["content"].rpartition(">>>")[0] for question in QUESTIONS}
        assert ends == {"Text:\n<<<\na\\n\\u003e\\u003e\\u003e\\nb\n"}


def test_a_threshold_is_tested_on_rows_that_it_was_not_set_on() -> None:
    """A perfect order has accuracy 1, a random score at most about one half."""
    assert split_accuracy([(n / 20, n >= 10) for n in range(20)]) > 0.85
    assert split_accuracy([(0.5, n % 2 == 0) for n in range(20)]) < 0.6


def test_ties_share_a_rank() -> None:
    """Ranks are between 0 and 1, and equal values have the same one."""
    assert ranks([0.1, 0.9, 0.1, 0.5]) == pytest.approx([1 / 6, 1.0, 1 / 6, 2 / 3])


def test_rows_are_half_attacks_inside_the_band(tmp_path: Path) -> None:
    """There are as many benign rows as attacks; rows without a score or outside the band are left out."""
    rows = [{"id": f"a{n}", "text": "x", "labels": ["jailbreak"]} for n in range(5)]
    rows += [{"id": f"b{n}", "text": "x", "benign": True} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    scores = {"a0": 0.5, "a1": 0.5, "a2": 0.9, "b0": 0.5, "b1": 0.4, "b2": 0.1}
    picked = chosen(tmp_path / "rows.jsonl", scores, (0.3, 0.7), 10)
    assert sorted(row.id for row in picked) == ["a0", "a1", "b0", "b1"]


def test_each_way_to_ask_has_its_line() -> None:
    """Each wording has a line, as the other layers have, on the same rows."""
    answers = [
        {"id": str(n), "attack": n > 1, "way": "plain, digit", "score": n / 4, "tokens": 100, "seconds": 1.0}
        for n in range(4)
    ]
    lines = list(figures(answers, {str(n): 1 - n / 4 for n in range(4)}))
    assert lines[0] == "4 rows, 2 attacks"
    assert "AUC 0.0" in lines[1]
    assert lines[2].startswith("plain, digit")
    assert "AUC 1.0" in lines[2]
    assert "with the others AUC 0.5" in lines[2]
