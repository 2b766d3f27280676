"""From a decision to its line in the scan log: plain, bounded values, and no word of a prompt unless asked for."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.storage import MAX_NAME, Entry, storable
from sidecar.types import Channel, Decision, Finding, Label, LayerName, LayerReport, Segment, Verdict

UNREAD = "[not read to its end]"
_LARGEST = 2**31 - 1
MOST_FINDINGS, MOST_OF_A_RULE = 20, 3
"""Findings of a row: a client can make a text in which one rule is met a hundred times."""
_LONGEST_PART = 48
_PLAIN = frozenset(string.ascii_letters + string.digits + "-._:*")
_KNOWN = """
    arguments content contents custom description documents function function_call functions input instructions
    json_schema messages metadata name output parameters parts prediction prompt query refusal response_format
    results role schema stop suffix summary system system_prompt text tool_calls tool_results tools user variables
"""
_PATH_WORDS = frozenset(_KNOWN.split())


def entry(decision: Decision) -> Entry:
    """The row. The judge's reasoning may quote the prompt: it is kept only where the text is kept."""
    verdict = decision.verdict
    return Entry(
        id=decision.id,
        at=decision.at,
        door=decision.door,
        route=plain_route(decision.route),
        action=decision.action,
        recommended=str(verdict.action),
        status=decision.status,
        risk_score=_number(verdict.risk_score) or 0.0,
        layer_used=str(verdict.layer_used),
        threats=" ".join(verdict.threats),
        latency_ms=min(verdict.latency_ms, _LARGEST),
        key_id=decision.key_id,
        model=decision.model and storable(decision.model, MAX_NAME),
        length=min(decision.length, _LARGEST),
        segments=min(decision.segments, _LARGEST),
        digest=decision.digest,
        failure=verdict.failure,
        unscanned=decision.unscanned,
        revision=verdict.revision,
        findings=[_finding(*one) for one in _kept(verdict.findings)],
        layers=[_layer(report) for report in verdict.reports],
        text=decision.text or None,
        reasoning=verdict.reasoning if decision.text else None,
    )


def _kept(findings: Sequence[Finding]) -> list[tuple[Finding, int]]:
    """The first few findings of each rule; the first one with how many the rule has in all."""
    count = Counter(finding.rule for finding in findings)
    seen: Counter[str] = Counter()
    kept: list[tuple[Finding, int]] = []
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] <= MOST_OF_A_RULE and len(kept) < MOST_FINDINGS:
            kept.append((finding, count[finding.rule] if seen[finding.rule] == 1 else 1))
    return kept


def _finding(finding: Finding, of: int) -> dict[str, Any]:
    more = {"of": of} if of > MOST_OF_A_RULE else {}
    return {
        "rule": finding.rule,
        "label": str(finding.label),
        "score": _number(finding.score),
        "layer": str(finding.layer),
        "path": _path(finding.path),
        "start": finding.start,
        "end": finding.end,
        "view": finding.view,
        "decides": finding.decides,
        "hint": finding.hint,
        "digest": finding.digest,
        **more,
    }


def _layer(report: LayerReport) -> dict[str, Any]:
    return {
        "layer": str(report.layer),
        "score": None if report.score is None else _number(report.score),
        "elapsed_ms": _number(report.elapsed * 1000),
        "failure": report.failure,
    }


def _number(value: float) -> float | None:
    """JSON and databases know no NaN."""
    return round(value, 4) if math.isfinite(value) else None


def plain_route(route: str) -> str:
    """What of a path is no plain word or id is the client's text, perhaps a prompt or a key: it becomes `*`."""
    parts = [part if len(part) <= _LONGEST_PART and _PLAIN.issuperset(part) else "*" for part in route.split("/")]
    return "/".join(parts)[:MAX_NAME]


def _path(path: str) -> str:
    """Object keys are the client's text too: what is no known word of a request body becomes `*`."""
    parts = path.split(".")[:32]
    return ".".join(part if part in _PATH_WORDS or (part.isdigit() and len(part) < 8) else "*" for part in parts)


def redacted(segments: Sequence[Segment], verdict: Verdict) -> str:
    """The text with every span that was found replaced by its label.

    `segments` are the first that were scanned. What the rules did not read to its end is left out, and so are the
    texts of the application and the model, in which nobody looks for personal data; and everything if the rules did not
    answer: then nobody knows what there is to hide.
    """
    said = [report for report in verdict.reports if report.layer is LayerName.RULES and report.score is not None]
    if not said:
        return ""
    unread = {number for number, one in enumerate(said[0].each) if not one.whole}
    at: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        at.setdefault(finding.path, []).append(finding)
    return "\n".join(UNREAD if n in unread else _shown(one, at) for n, one in enumerate(segments))


def _shown(segment: Segment, at: Mapping[str, Sequence[Finding]]) -> str:
    """A segment as it may be kept, given what was found at each path."""
    if segment.channel is Channel.APPLICATION:
        return f"[{segment.source}]"
    return _redact(segment, [finding for path in dict.fromkeys(segment.paths) for finding in at.get(path, ())])


def _redact(segment: Segment, here: Sequence[Finding]) -> str:
    """PII without a place hides the whole segment. `here`: what was found at its path."""
    if any(finding.start is None and finding.label is Label.PII_DETECTED for finding in here):
        return f"[{Label.PII_DETECTED}]"
    parts, done = [], 0
    for finding in sorted((f for f in here if f.start is not None), key=lambda f: f.start or 0):
        start, end = finding.start or 0, finding.end or 0
        if end <= done:
            continue
        if start >= done:
            parts += [segment.text[done:start], f"[{finding.label}]"]
        done = end
    return "".join([*parts, segment.text[done:]])
