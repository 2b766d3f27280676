"""What each rule is worth on a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import ConfigError
from sidecar.evaluation import Outcome, Row, rule_coverage
from sidecar.policy import Policy, Rule
from sidecar.types import Action, Label, LayerName, Verdict

ATTACK, BENIGN = frozenset({"jailbreak"}), frozenset[str]()


def rule(name: str, pattern: str, **changes: object) -> Rule:
    """A rule that looks for one pattern."""
    values = {"id": name, "title": name, "label": Label.JAILBREAK, "score": 0.9, "languages": ["en"]}
    return Rule.model_validate({**values, "patterns": [pattern], "match": ["x"], "no_match": ["y"], **changes})


RULES = Policy(
    rules=(
        rule("T-1", "fruit"),
        rule("T-2", "red fruit"),
        rule("T-3", "stone"),
        rule("T-4", "gold", status="retired"),
        rule("T-5", "x", patterns=[], similar_to=["silver"]),
    ),
    revision="test",
)


async def outcomes(texts: list[tuple[str, frozenset[str]]]) -> list[Outcome]:
    """The texts through the rules."""
    layer, results = RulesLayer(RULES), []
    for text, labels in texts:
        row = Row(id=text, text=text, labels=labels, benign=not labels)
        report = await layer.scan(row.request(), ())
        verdict = Verdict(report.score or 0.0, Action.ALLOW, (), 0, LayerName.RULES, reports=(report,))
        results.append(Outcome(row, verdict, 0.0))
    return results


async def test_rows_are_counted_by_kind_for_every_rule_that_fired() -> None:
    """Attacks, attacks that nothing else met, and false positives."""
    texts = [("red fruit", ATTACK), ("green fruit", ATTACK), ("my fruit", BENIGN), ("nothing", BENIGN)]
    report = rule_coverage.report(RULES, await outcomes(texts))
    fired = {figures["rule"]: figures for figures in report["fired"]}
    assert {name: fired["T-1"][name] for name in ("rows", "attacks", "alone", "benign")} == {
        "rows": 3,
        "attacks": 2,
        "alone": 1,
        "benign": 1,
    }
    assert (fired["T-2"]["alone"], fired["T-2"]["benign"]) == (0, 0)


async def test_rules_that_never_fire_are_named_if_they_were_asked() -> None:
    """Not retired ones, and not those of a layer that did not run."""
    report = rule_coverage.report(RULES, await outcomes([("red fruit", ATTACK)]))
    assert (report["never"], report["rules"]) == (["T-3"], 3)


async def test_a_rule_within_another_is_named() -> None:
    """From a few rows on: one row in common is chance."""
    few = rule_coverage.report(RULES, await outcomes([("red fruit", ATTACK)]))
    many = rule_coverage.report(RULES, await outcomes([("red fruit", ATTACK)] * 3 + [("a fruit", ATTACK)] * 2))
    assert few["overlaps"] == []
    assert many["overlaps"] == [{"rule": "T-2", "within": "T-1", "rows": 3, "both": 3}]


def test_a_file_of_lines_is_benign_and_a_labelled_one_says_itself(tmp_path: Path) -> None:
    """By the name of the file; what cannot be read is said."""
    plain, labelled = tmp_path / "lines.txt", tmp_path / "rows.jsonl"
    plain.write_text("# of ours\none\n\ntwo\n", "utf-8")
    labelled.write_text('{"text": "three", "labels": ["jailbreak"]}\n', "utf-8")
    assert [(row.text, row.benign) for row in rule_coverage.read(plain)] == [("one", True), ("two", True)]
    assert [(row.text, row.attack) for row in rule_coverage.read(labelled)] == [("three", True)]
    with pytest.raises(ConfigError, match=r"nowhere\.txt"):
        rule_coverage.read(tmp_path / "nowhere.txt")
