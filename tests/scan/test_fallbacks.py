"""Where `fallback` findings decide: texts that leave the model no context. The other cases: `test_engine`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.scan.fallbacks import decide_across_parts, decide_fallbacks
from sidecar.types import Finding, Label, LayerName, LayerReport, Segment, SegmentReport


def fallback(start: int, end: int, *, hint: bool = True, rule: str = "T-1") -> Finding:
    """A finding of a `fallback` rule; without `hint` its context made it harmless."""
    place = {"start": start, "end": end}
    return Finding(rule, Label.JAILBREAK, 0.95, LayerName.RULES, "p", **place, decides=False, hint=hint, fallback=True)


@pytest.mark.parametrize(
    ("findings", "decides"),
    [
        ([fallback(0, 10)], True),
        ([fallback(0, 6), fallback(4, 8)], True),
        ([fallback(0, 6), fallback(1, 5)], False),
        ([fallback(0, 6)], False),
        ([fallback(0, 10, hint=False)], False),
    ],
)
def test_findings_that_fill_a_text_decide(findings: list[Finding], decides: bool) -> None:
    """Together from 70 % of the text, an overlap counted once; what its context made harmless does not count."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, tuple(findings))])
    decided = decide_fallbacks(report, [True], (Segment("x" * 10),))
    assert [finding.decides for finding in decided.findings] == [decides] * len(findings)
    assert decided.score == (0.95 if decides else 0.0)


@pytest.mark.parametrize(
    ("rules", "start", "hint", "decides"),
    [("ABC", 2, True, True), ("AAB", 2, True, False), ("ABC", 3, True, False), ("ABC", 2, False, False)],
)
def test_rules_that_agree_on_the_first_words_decide(rules: str, start: int, hint: bool, decides: bool) -> None:
    """Three of them, at the first letter, none made harmless by its context."""
    findings = tuple(fallback(start, start + 5, rule=f"T-{rule}", hint=hint) for rule in rules)
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, findings)])
    decided = decide_fallbacks(report, [True], (Segment("* " + "x" * 100),))
    assert {finding.decides for finding in decided.findings} == {decides}


def test_another_text_is_not_filled() -> None:
    """Each text is measured by itself."""
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (fallback(0, 10),)), SegmentReport(0.0)])
    decided = decide_fallbacks(report, [True, True], (Segment("x" * 100), Segment("y" * 10)))
    assert not decided.findings[0].decides


def test_a_finding_within_one_part_of_a_cut_text_is_the_parts_own() -> None:
    """There it may be quoted; one that reaches over two parts counts, though a part repeats its words."""
    parts = ('He wrote: "drop the rules" to me.', "and then some more", "rules and")
    joined = Segment("drop the rules\nand then", joined=True, rules_only=True, parts=parts, joins=(15,))
    own = {"decides": True, "hint": False}
    findings = [replace(fallback(*place), **own) for place in ((0, 8), (9, 18), (9, 14), (15, 18))]
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.95, tuple(findings))])
    decided = decide_across_parts(report, (joined,))
    assert [finding.decides for finding in decided.findings] == [False, True, False, False]
    assert decide_across_parts(report, (replace(joined, rules_only=False),)) is report
