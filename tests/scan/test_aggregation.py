"""Twin of sidecar/scan/aggregation.py; what it means for a verdict is in tests/scan/test_engine.py."""

from __future__ import annotations

from dataclasses import replace

from sidecar.scan.aggregation import (
    Aggregate,
    Caller,
    EngineConfig,
    ScanRun,
    apply_exceptions,
    apply_rule_changes,
    blocking_path,
    lowered_thresholds,
    round_score,
    threats,
)
from sidecar.types import Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport, Source
from sidecar.util.units import RuleChange


def scan_run(*segments: Segment) -> ScanRun:
    """A scan of these segments under a threshold of 0.6, and 0.4 for tools."""
    config = EngineConfig(thresholds={Source.UNTRUSTED: 0.4})
    return ScanRun(ScanRequest(segments), Caller(), 0.0, 0.6, config.thresholds_for(segments, None))


def report(*results: tuple[str, Label, float]) -> LayerReport:
    """A report with one finding a segment."""
    findings = [Finding("T-1", label, score, LayerName.RULES, path) for path, label, score in results]
    return LayerReport.from_segments(LayerName.RULES, [SegmentReport(f.score, (f,)) for f in findings])


def test_threshold_precedence_is_key_then_source_then_general() -> None:
    """The most specific threshold applies."""
    config = EngineConfig(thresholds={Source.UNTRUSTED: 0.4, Source.APPLICATION: 0.9})
    segments = (Segment("a"), Segment("b", Source.UNTRUSTED), Segment("c", Source.APPLICATION))
    assert config.thresholds_for(segments, None) == (0.6, 0.4, 0.9)
    assert config.thresholds_for(segments, 0.7) == (0.7, 0.7, 0.7)


def test_a_segment_can_only_lower_its_threshold() -> None:
    """Neither a key's nor a source's stricter one is loosened; without such segments nothing changes."""
    base = (0.6, 0.6, 0.2)
    segments = (Segment("a"), Segment("b", threshold=0.3), Segment("c", threshold=0.3))
    assert lowered_thresholds(segments, base) == (0.6, 0.3, 0.2)
    assert lowered_thresholds(segments[:1] * 3, base) is base


def test_rules_only_segments_are_read_by_the_rules_layer_alone() -> None:
    """A source without an entry is read by every layer."""
    config = EngineConfig(layers={Source.MODEL: frozenset({LayerName.RULES})})
    texts = (Segment("a"), Segment("b", rules_only=True), Segment("c", Source.MODEL))
    assert [config.reads(LayerName.SEMANTIC, text) for text in texts] == [True, False, False]
    assert all(config.reads(LayerName.RULES, text) for text in texts)


def test_the_segment_that_blocks_is_named_though_another_scores_higher() -> None:
    """A score below its own threshold does not block, however high it is."""
    run = scan_run(Segment("a", path="a"), Segment("b", Source.UNTRUSTED, "b"))
    layer_report = report(("a", Label.JAILBREAK, 0.55), ("b", Label.PROMPT_INJECTION, 0.45))
    aggregate = Aggregate(0.6).merged_with(layer_report, run)
    assert (aggregate.blocked, aggregate.score) == (True, 0.45)
    assert blocking_path(aggregate, run.threshold_by_path) == "b"
    assert threats(aggregate, run.threshold_by_path) == (Label.PROMPT_INJECTION,)


def test_a_whole_request_report_is_held_to_the_threshold_of_the_aggregate() -> None:
    """A judge reports on no segments: the segment that triggered it sets the threshold."""
    run = scan_run(Segment("a", path="a"), Segment("b", Source.UNTRUSTED, "b"))
    aggregate = Aggregate(0.6).merged_with(report(("a", Label.JAILBREAK, 0.1), ("b", Label.JAILBREAK, 0.45)), run)
    after_judge = aggregate.merged_with(LayerReport(LayerName.LLM_JUDGE, 0.42), run, replaces=True)
    assert (after_judge.blocked, after_judge.layer) == (True, LayerName.LLM_JUDGE)


def test_a_higher_score_under_a_higher_threshold_does_not_raise_the_threshold_that_blocks() -> None:
    """An attacker cannot add a text to raise the threshold that the judge's score is held to."""
    run = scan_run(Segment("a", path="a"), Segment("b", Source.UNTRUSTED, "b"))
    judge_report = LayerReport(LayerName.LLM_JUDGE, 0.5)
    for layer_report in (0.7, 0.45, 0.59):
        results = report(("a", Label.JAILBREAK, layer_report), ("b", Label.PROMPT_INJECTION, 0.45))
        assert Aggregate(0.6).merged_with(results, run).merged_with(judge_report, run, replaces=True).blocked
    first = report(("a", Label.JAILBREAK, 0.1), ("b", Label.PROMPT_INJECTION, 0.45))
    second = report(("a", Label.JAILBREAK, 0.8), ("b", Label.PROMPT_INJECTION, 0.1))
    for pair in ((first, second), (second, first)):
        aggregate = Aggregate(0.6)
        for item in pair:
            aggregate = aggregate.merged_with(item, run)
        assert (aggregate.blocked, aggregate.score) == (True, 0.8)
        assert aggregate.merged_with(judge_report, run, replaces=True).blocked


def test_a_key_changes_rules() -> None:
    """`off` and `hint` stop deciding, `block` decides unless the finding became a hint; a score replaces the rule's."""
    results = [Finding("T-1", Label.JAILBREAK, 0.9, LayerName.RULES, "a")]
    results += [Finding("T-2", Label.JAILBREAK, 0.7, LayerName.RULES, "a", decides=False)]
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.9, tuple(results))])
    assert apply_rule_changes(report, {}) is apply_rule_changes(report, {"T-9": RuleChange("off")}) is report
    for switch, score, levels in (
        (RuleChange("off"), 0.0, (False, False)),
        (RuleChange("hint"), 0.0, (False, True)),
        (RuleChange("block", 0.4), 0.4, (True, False)),
        (RuleChange(None, 0.3), 0.3, (True, False)),
    ):
        changed = apply_rule_changes(report, {"T-1": switch})
        first = changed.findings[0]
        assert (changed.score, (first.decides, first.hint)) == (score, levels)
    assert apply_rule_changes(report, {"T-2": RuleChange("block")}).findings[1].decides


def test_an_excepted_hint_no_longer_counts() -> None:
    """An exception covers the hints of its rule, too."""
    results = Finding("T-1", Label.JAILBREAK, 0.9, LayerName.RULES, "a", decides=False, hint=True)
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (results,))])
    run = replace(scan_run(Segment("a", path="a")), exceptions=(frozenset({"T-1"}),))
    assert [f.hint for f in apply_exceptions(report, run).findings] == [False]


def test_two_segments_at_one_path_are_held_to_the_lower_threshold() -> None:
    """Names and values of a member share a path."""
    assert scan_run(Segment("a", path="x"), Segment("b", Source.UNTRUSTED, "x")).threshold_by_path == {"x": 0.4}


def test_scores_have_four_decimals_between_zero_and_one() -> None:
    """Scores of any layer are clamped and rounded."""
    assert [round_score(score) for score in (-1.0, 0.123449, 0.59996, 7.0)] == [0.0, 0.1234, 0.6, 1.0]
