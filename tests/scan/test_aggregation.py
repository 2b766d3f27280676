"""Twin of sidecar/scan/aggregation.py; what it means for a verdict is in tests/scan/test_engine.py."""

from __future__ import annotations

from dataclasses import replace

from sidecar.scan.aggregation import Caller, Case, Standing, Terms, culprit, exempted, rounded, switched, threats
from sidecar.types import Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport, Source
from sidecar.util.units import RuleChange


def case(*segments: Segment) -> Case:
    """A scan of these segments under a threshold of 0.6, and 0.4 for tools."""
    terms = Terms(thresholds={Source.UNTRUSTED: 0.4})
    return Case(ScanRequest(segments), Caller(), 0.0, 0.6, terms.bars(segments, None))


def report(*found: tuple[str, Label, float]) -> LayerReport:
    """A report with one finding a segment."""
    findings = [Finding("T-1", label, score, LayerName.RULES, path) for path, label, score in found]
    return LayerReport.from_segments(LayerName.RULES, [SegmentReport(f.score, (f,)) for f in findings])


def test_a_bar_is_the_keys_then_the_sources_then_the_general_one() -> None:
    """The most particular one counts."""
    terms = Terms(thresholds={Source.UNTRUSTED: 0.4, Source.APPLICATION: 0.9})
    segments = (Segment("a"), Segment("b", Source.UNTRUSTED), Segment("c", Source.APPLICATION))
    assert terms.bars(segments, None) == (0.6, 0.4, 0.9)
    assert terms.bars(segments, 0.7) == (0.7, 0.7, 0.7)


def test_a_text_whose_parts_are_read_is_for_rules_alone() -> None:
    """And a source that is not named is read by every layer."""
    terms = Terms(layers={Source.MODEL: frozenset({LayerName.RULES})})
    texts = (Segment("a"), Segment("b", rules_only=True), Segment("c", Source.MODEL))
    assert [terms.reads(LayerName.SEMANTIC, text) for text in texts] == [True, False, False]
    assert all(terms.reads(LayerName.RULES, text) for text in texts)


def test_the_segment_that_blocks_is_named_though_another_scores_higher() -> None:
    """A score below its own bar blocks nothing, however high it is."""
    here = case(Segment("a", path="a"), Segment("b", Source.UNTRUSTED, "b"))
    spoken = report(("a", Label.JAILBREAK, 0.55), ("b", Label.PROMPT_INJECTION, 0.45))
    standing = Standing(0.6).after(spoken, here)
    assert (standing.blocked, standing.score) == (True, 0.45)
    assert culprit(standing, here.bar_of) == "b"
    assert threats(standing, here.bar_of) == (Label.PROMPT_INJECTION,)


def test_a_word_on_the_whole_request_is_held_to_the_bar_of_what_weighs_most() -> None:
    """A judge has no segments: it was asked because of one of them."""
    here = case(Segment("a", path="a"), Segment("b", Source.UNTRUSTED, "b"))
    standing = Standing(0.6).after(report(("a", Label.JAILBREAK, 0.1), ("b", Label.JAILBREAK, 0.45)), here)
    judged = standing.after(LayerReport(LayerName.LLM_JUDGE, 0.42), here, replaces=True)
    assert (judged.blocked, judged.layer) == (True, LayerName.LLM_JUDGE)


def test_a_heavier_text_under_a_higher_bar_does_not_lift_what_blocks_over_its_own() -> None:
    """Somebody adds a text of his own to one that blocks: the judge's word is still held to the lower bar."""
    here = case(Segment("a", path="a"), Segment("b", Source.UNTRUSTED, "b"))
    word = LayerReport(LayerName.LLM_JUDGE, 0.5)
    for spoken in (0.7, 0.45, 0.59):
        found = report(("a", Label.JAILBREAK, spoken), ("b", Label.PROMPT_INJECTION, 0.45))
        assert Standing(0.6).after(found, here).after(word, here, replaces=True).blocked
    first = report(("a", Label.JAILBREAK, 0.1), ("b", Label.PROMPT_INJECTION, 0.45))
    second = report(("a", Label.JAILBREAK, 0.8), ("b", Label.PROMPT_INJECTION, 0.1))
    for pair in ((first, second), (second, first)):
        standing = Standing(0.6)
        for one in pair:
            standing = standing.after(one, here)
        assert (standing.blocked, standing.score) == (True, 0.8)
        assert standing.after(word, here, replaces=True).blocked


def test_a_key_switches_rules() -> None:
    """Off and hint no longer decide, block does but for what is only mentioned; a score takes the place of another."""
    found = [Finding("T-1", Label.JAILBREAK, 0.9, LayerName.RULES, "a")]
    found += [Finding("T-2", Label.JAILBREAK, 0.7, LayerName.RULES, "a", decides=False)]
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.9, tuple(found))])
    assert switched(report, {}) is switched(report, {"T-9": RuleChange("off")}) is report
    for switch, score, levels in (
        (RuleChange("off"), 0.0, (False, False)),
        (RuleChange("hint"), 0.0, (False, True)),
        (RuleChange("block", 0.4), 0.4, (True, False)),
        (RuleChange(None, 0.3), 0.3, (True, False)),
    ):
        changed = switched(report, {"T-1": switch})
        first = changed.findings[0]
        assert (changed.score, (first.decides, first.hint)) == (score, levels)
    assert switched(report, {"T-2": RuleChange("block")}).findings[1].decides


def test_an_excepted_hint_no_longer_counts() -> None:
    """Whoever excepts a rule on a text means its hints, too."""
    found = Finding("T-1", Label.JAILBREAK, 0.9, LayerName.RULES, "a", decides=False, hint=True)
    report = LayerReport.from_segments(LayerName.RULES, [SegmentReport(0.0, (found,))])
    here = replace(case(Segment("a", path="a")), exempt=(frozenset({"T-1"}),))
    assert [f.hint for f in exempted(report, here).findings] == [False]


def test_two_texts_at_one_path_are_held_to_the_lower_bar() -> None:
    """Names and values of a member share a path."""
    assert case(Segment("a", path="x"), Segment("b", Source.UNTRUSTED, "x")).bar_of == {"x": 0.4}


def test_scores_are_shown_with_four_decimals_between_nought_and_one() -> None:
    """Whatever a layer says."""
    assert [rounded(score) for score in (-1.0, 0.123449, 0.59996, 7.0)] == [0.0, 0.1234, 0.6, 1.0]
