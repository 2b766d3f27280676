"""A hit of a rule becomes a finding."""

from __future__ import annotations

from sidecar.detectors.rules import hits
from sidecar.normalization import NormalizedText
from sidecar.policy import Rule
from sidecar.types import Label, Segment, Source


def rule(**changes: object) -> Rule:
    """A rule of one pattern."""
    values = {"id": "T-1", "title": "t", "label": Label.JAILBREAK, "score": 0.9, "languages": ["en"]}
    return Rule.model_validate({**values, "patterns": ["banana"], "match": ["x"], "no_match": ["y"], **changes})


def test_the_status_says_what_a_hit_counts_as() -> None:
    """A hit decides alone, is a hint, or is only reported, by the status of its rule."""
    text = Segment("a banana")
    finding = [
        hits.finding(rule(status=status), text, NormalizedText(text.text), 2, 8) for status in ("block", "hint", "test")
    ]
    assert [(f.decides, f.hint) for f in finding] == [(True, False), (False, True), (False, False)]
    assert [hits.status_of(f) for f in finding] == ["block", "hint", "test"]


def test_one_step_less() -> None:
    """A blocking finding becomes a hint, a hint is only reported."""
    finding = hits.finding(rule(), Segment("banana"), NormalizedText("banana"), 0, 6)
    assert [hits.status_of(hits.demoted(finding)), hits.status_of(hits.demoted(hits.demoted(finding)))] == [
        "hint",
        "test",
    ]


def test_what_rests_on_another_finding_is_worth_no_more_than_that_one() -> None:
    """A finding derived from a hint is a hint."""
    finding = hits.finding(rule(), Segment("banana"), NormalizedText("banana"), 0, 6)
    hint = hits.demoted(finding)
    levels = [hits.status_of(hits.capped_by(finding, cause)) for cause in (finding, hint, hits.demoted(hint))]
    assert levels == ["block", "hint", "test"]


def test_context_words_raise_what_a_hit_is_worth() -> None:
    """Within eighty characters, in any case; each channel has its own score."""
    text = "CARD banana"
    near = rule(context=["card"], context_score=0.95)
    assert hits.finding(near, Segment(text), NormalizedText(text), 5, 11).score == 0.95
    far = f"card {'x' * hits.CONTEXT_RADIUS} banana"
    assert hits.finding(near, Segment(far), NormalizedText(far), len(far) - 6, len(far)).score == 0.9
    segment = Segment("banana", Source.UNTRUSTED)
    assert hits.finding(rule(indirect_score=0.2), segment, NormalizedText("banana"), 0, 6).score == 0.2


def test_data_and_disguises_have_no_excuse() -> None:
    """Data rules ignore the context and report every occurrence."""
    labels = {
        label: (hits.is_context_sensitive(rule(label=label)), hits.reports_every_place(rule(label=label)))
        for label in Label
    }
    assert labels[Label.PII_DETECTED] == (False, True)
    assert labels[Label.TOKEN_SMUGGLING] == (False, False)
    assert labels[Label.PROMPT_INJECTION] == (True, False)
    assert not hits.is_context_sensitive(rule(literal=True))


def test_only_what_was_decoded_is_evidence_of_hiding() -> None:
    """A hit on the visible text around it is none; where a step changes single characters, nothing is known."""
    view = NormalizedText("say duck now", ("bits",), hidden=True, replaced=((4, 8),))
    assert [hits.is_decoded(view, *span) for span in ((4, 8), (2, 10), (0, 3), (0, 12))] == [True, True, False, False]
    assert hits.is_decoded(NormalizedText("say duck now"), 0, 3)
