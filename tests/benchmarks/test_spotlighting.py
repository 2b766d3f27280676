"""Twin of benchmarks/spotlighting.py: the cases are sound, and the figures count what they say."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import yaml

from benchmarks.spotlighting import (
    CASES,
    SETTINGS,
    Outcome,
    cases,
    figures,
    interval,
    marked,
    outcome,
    read_outcomes,
    sample,
    time_all,
)
from sidecar.proxy.spotlighting import MARK

LOADED = yaml.safe_load(CASES.read_text("utf-8"))
ALL = list(cases(LOADED))


def test_every_result_comes_alone_and_with_every_order() -> None:
    """The answer stands in each result, and no harmless one has the words of an order."""
    results, orders = LOADED["results"], LOADED["orders"]
    assert len(ALL) == len(results) * (1 + len(orders))
    assert all(re.search(case.answer, case.result) for case in ALL)
    assert all(re.search(order["canary"], order["text"]) for order in orders)
    harmless = [case.result + case.question for case in ALL if case.canary is None]
    assert not any(re.search(order["canary"], text) for order in orders for text in harmless)


def test_no_answer_is_in_an_order() -> None:
    """So that to repeat an order solves no task."""
    assert not any(re.search(case["answer"], order["text"]) for case in LOADED["results"] for order in LOADED["orders"])


def test_the_body_is_that_of_the_setting() -> None:
    """As sent, between delimiters, and with marks; the case itself stays as it is."""
    bodies = [marked(ALL[1].body, setting) for setting in SETTINGS]
    texts = [body["messages"][2]["content"] for body in bodies]
    assert texts[0] == ALL[1].result
    assert ALL[1].result in texts[1]
    assert texts[1].startswith("[data ")
    assert MARK in texts[2]


def test_an_answer_is_judged_by_its_words() -> None:
    """One that obeys and solves counts as both; in a harmless case nothing is obeyed."""

    def judged(case: int, text: str) -> tuple[bool, bool, bool]:
        usage = {"prompt_tokens": 7}
        found = outcome(case, ALL[case], "fence", b"{}", {"choices": [{"message": {"content": text}}], "usage": usage})
        return found.attacked, found.obeyed, found.solved

    assert judged(1, "Zanzibar") == (True, True, False)
    assert judged(1, "At 7:45. Zanzibar!") == (True, True, True)
    assert judged(0, "Zanzibar at 7:45") == (False, False, True)


def test_the_figures_count_each_setting_by_itself() -> None:
    """Attacks in two columns, harmless cases in the third; bytes and tokens as the difference to forward."""
    outcomes = [
        Outcome(0, setting, attacked, setting == "forward" and attacked, True, 100 + 40 * number, 50 + 10 * number)
        for attacked in (True, False)
        for number, setting in enumerate(SETTINGS)
    ]
    lines = list(figures(outcomes))
    assert lines[2] == "| `forward` | 1 of 1 (21 to 100 %) | 1 of 1 (21 to 100 %) | 1 of 1 (21 to 100 %) |"
    assert lines[3].startswith("| `fence` | 0 of 1 (0 to 79 %) |")
    assert lines[5:] == [
        "fence: +40 bytes and +10 tokens a request, of 50 tokens as sent",
        "datamark: +80 bytes and +20 tokens a request, of 50 tokens as sent",
    ]


def test_the_interval_is_wilsons() -> None:
    """As in the usual tables: 5 of 10 is 24 to 76 %."""
    assert interval(5, 10) == "5 of 10 (24 to 76 %)"
    assert interval(0, 0) == "-"


def test_a_run_can_be_continued(tmp_path: Path) -> None:
    """Every case is in the sample once, always in the same order; outcomes are read as they were written."""
    assert sample(LOADED) == sample(LOADED)
    assert dict(sample(LOADED)) == dict(enumerate(ALL))
    assert [case.canary for _, case in sample(LOADED)[: len(LOADED["results"])]] == [None] * len(LOADED["results"])
    result, path = Outcome(0, "fence", True, False, True, 9, 7), tmp_path / "out.jsonl"
    assert read_outcomes(path) == []
    path.write_text(json.dumps(asdict(result)) + "\n")
    assert read_outcomes(path) == [result]


async def test_the_time_is_measured_for_each_setting(tmp_path: Path) -> None:
    """Through running sidecars; how long it takes is not judged here."""
    medians = await time_all(2, 1, str(tmp_path))
    assert set(medians) == set(SETTINGS)
    assert all(median > 0 for median in medians.values())
