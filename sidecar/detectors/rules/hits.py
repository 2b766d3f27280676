"""What a hit of a rule becomes: a finding with its place, its worth, and whether it decides alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sidecar.normalization import NormalizedText
from sidecar.policy import Rule
from sidecar.types import Finding, Label, LayerName, Segment

CONTEXT_RADIUS = 80
"""Code points around a hit in which a context word counts."""


def finding(rule: Rule, segment: Segment, view: NormalizedText, start: int, end: int) -> Finding:
    """The finding on a hit at this place of the view; its place in the segment is looked up."""
    score = rule.score_on(segment.channel) or 0.0
    if rule.context_score is not None and _has_context_word(rule.context, view.text, start, end):
        score = rule.context_score
    return finding_at(rule, score, segment, view, *view.locate(start, end))


def finding_at(
    rule: Rule, score: float, segment: Segment, view: NormalizedText, start: int | None, end: int | None
) -> Finding:
    """The finding at a place of the segment; what it counts as is the rule's status."""
    decides, hint = rule.status == "block", rule.status == "hint"
    place = (segment.path_at(start), start, end, view.name)
    return Finding(rule.id, rule.label, score, LayerName.RULES, *place, decides=decides, hint=hint)


def segment_finding(rule: str, label: Label, score: float, segment: Segment, view: NormalizedText) -> Finding:
    """A finding on the text as such."""
    return Finding(rule, label, score, LayerName.RULES, segment.path, view=view.name)


def status_of(finding: Finding) -> str:
    """The status whose hit this is."""
    return "block" if finding.decides else "hint" if finding.hint else "test"


def demoted(finding: Finding) -> Finding:
    """One step less: what blocks becomes a hint, a hint is reported only."""
    return replace(finding, decides=False, hint=finding.decides)


def capped_by(finding: Finding, cause: Finding) -> Finding:
    """A finding that rests on another one decides only if that one does, and hints only if that one counts at all."""
    if cause.decides:
        return finding
    return replace(finding, decides=False, hint=cause.hint and (finding.decides or finding.hint))


def reports_every_place(rule: Rule) -> bool:
    """Whether every place counts: so it does for a rule that is about data rather than intent."""
    return rule.label is Label.PII_DETECTED


def is_context_sensitive(rule: Rule) -> bool:
    """Whether it is about what somebody wants: data is data, and a disguise a disguise, wherever it stands."""
    return not rule.literal and rule.label not in (Label.PII_DETECTED, Label.TOKEN_SMUGGLING)


def _has_context_word(words: Sequence[str], text: str, start: int, end: int) -> bool:
    """Whether a context word stands close by, in any case."""
    around = text[max(0, start - CONTEXT_RADIUS) : end + CONTEXT_RADIUS].casefold()
    return any(word.casefold() in around for word in words)
