"""Turns a hit of a rule into a finding: its place, its score, and whether it decides alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sidecar.normalization import NormalizedText
from sidecar.policy import Rule
from sidecar.types import Finding, Label, LayerName, Segment

CONTEXT_RADIUS = 80
"""Code points around a hit in which a context word counts."""


def finding(
    rule: Rule, segment: Segment, view: NormalizedText, start: int, end: int, *, unaided: bool = True
) -> Finding:
    """The finding for a hit at this place of the view; its place in the segment is computed."""
    score = rule.score_on(segment.channel) or 0.0
    if rule.context_score is not None and _has_context_word(rule.context, view.text, start, end):
        score = rule.context_score
    return finding_at(rule, score, segment, view, *view.locate(start, end), unaided=unaided)


def finding_at(
    rule: Rule,
    score: float,
    segment: Segment,
    view: NormalizedText,
    start: int | None,
    end: int | None,
    *,
    unaided: bool = True,
) -> Finding:
    """The finding at a place of the segment; the rule's status says how it counts. What was hidden is no mention."""
    status = effective_status(rule, unaided=unaided or view.is_disguise)
    decides, hint = status == "block", status == "hint"
    fallback = rule.status == "fallback" and hint
    place = (segment.path_at(start), start, end, view.name)
    return Finding(rule.id, rule.label, score, LayerName.RULES, *place, decides=decides, hint=hint, fallback=fallback)


def segment_finding(rule: str, label: Label, score: float, segment: Segment, view: NormalizedText) -> Finding:
    """A finding on the whole segment."""
    return Finding(rule, label, score, LayerName.RULES, segment.path, view=view.name)


def effective_status(rule: Rule, *, unaided: bool) -> str:
    """The rule's status, with `fallback` resolved: `block` where no model scores the text, else `hint`."""
    if rule.status != "fallback":
        return rule.status
    return "block" if unaided else "hint"


def status_of(finding: Finding) -> str:
    """The rule status that this finding corresponds to."""
    return "block" if finding.decides else "hint" if finding.hint else "test"


def demoted(finding: Finding) -> Finding:
    """One level lower: `block` becomes a hint, a hint is only reported."""
    return replace(finding, decides=False, hint=finding.decides, fallback=False)


def capped_by(finding: Finding, cause: Finding) -> Finding:
    """A finding derived from another decides only if that one decides, and hints only if that one counts."""
    if cause.decides:
        return finding
    return replace(finding, decides=False, hint=cause.hint and (finding.decides or finding.hint))


def is_decoded(view: NormalizedText, start: int, end: int) -> bool:
    """Whether most of a hit is what the view's last step decoded, if that is known: the text around it was visible."""
    decoded = sum(max(0, min(end, last) - max(start, first)) for first, last in view.replaced)
    return not view.replaced or 2 * decoded >= end - start


def reports_every_place(rule: Rule) -> bool:
    """Whether every occurrence is reported: for rules about data, not intent."""
    return rule.label is Label.PII_DETECTED


def is_context_sensitive(rule: Rule) -> bool:
    """Whether the rule is about intent: data and disguises count regardless of context."""
    return not rule.literal and rule.label not in (Label.PII_DETECTED, Label.TOKEN_SMUGGLING)


def _has_context_word(words: Sequence[str], text: str, start: int, end: int) -> bool:
    """Whether a context word is nearby, ignoring case."""
    around = text[max(0, start - CONTEXT_RADIUS) : end + CONTEXT_RADIUS].casefold()
    return any(word.casefold() in around for word in words)
