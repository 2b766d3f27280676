"""Converts a decision to its row in the scan log: bounded values, and no text of a prompt unless configured."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sidecar.storage import MAX_NAME, NOT_SCANNED, DecisionRow, storable
from sidecar.types import Channel, Decision, Finding, Label, LayerName, LayerReport, Segment, Verdict

UNSCANNED = "[not read to its end]"
_MAX_INT = 2**31 - 1
MAX_FINDINGS, MAX_PER_RULE = 20, 3
"""Findings in one row, and of one rule: a client can send a text that matches one rule a hundred times."""
_MAX_PART = 48
_PLAIN = frozenset(string.ascii_letters + string.digits + "-._:*")
_PATH_WORD_LIST = """
    arguments content contents custom data description documents error function function_call functions input
    inputSchema instructions json_schema message messages metadata name output outputSchema parameters parts prediction
    prompt prompts properties query refusal resource resources response_format results role schema stop
    structuredContent suffix summary system systemPrompt system_prompt text title tool_calls tool_results tools uri
    user variables
"""
_PATH_WORDS = frozenset(_PATH_WORD_LIST.split())


def decision_row(decision: Decision) -> DecisionRow:
    """The row. The judge's reasoning may quote the prompt: it is stored only where the text is stored."""
    verdict = decision.verdict
    return DecisionRow(
        id=decision.id,
        at=decision.at,
        door=decision.entrypoint,
        route=mask_route(decision.route),
        action=decision.action,
        recommended=str(verdict.action),
        status=decision.status,
        risk_score=_finite(verdict.risk_score) or 0.0,
        layer_used=str(verdict.layer_used) if verdict.reports else NOT_SCANNED,
        threats=" ".join(verdict.threats),
        latency_ms=min(verdict.latency_ms, _MAX_INT),
        key_id=decision.key_id,
        model=(decision.model and storable(decision.model, MAX_NAME)) or None,
        length=min(decision.length, _MAX_INT),
        segments=min(decision.segments, _MAX_INT),
        digest=decision.digest,
        failure=verdict.failure,
        unscanned=decision.unscanned,
        revision=verdict.revision,
        findings=finding_rows(verdict.findings),
        layers=list(map(_layer_fields, verdict.reports)),
        text=decision.text or None,
        reasoning=verdict.reasoning if decision.text else None,
        client=decision.client,
        request=[dict(entry) for entry in decision.outline] if decision.outline else None,
        threshold=verdict.threshold,
        setting=verdict.setting,
        replaced=min(decision.replaced, _MAX_INT) or None,
    )


def finding_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The stored form of findings: the first ones of each rule."""
    return [_finding_fields(*selection) for selection in _select(findings)] if findings else []


def _select(findings: Sequence[Finding]) -> list[tuple[Finding, int]]:
    """The first findings of each rule; the first one with the rule's total number."""
    totals = Counter(finding.rule for finding in findings)
    counts: Counter[str] = Counter()
    selected: list[tuple[Finding, int]] = []
    for finding in findings:
        counts[finding.rule] += 1
        if counts[finding.rule] <= MAX_PER_RULE and len(selected) < MAX_FINDINGS:
            selected.append((finding, totals[finding.rule] if counts[finding.rule] == 1 else 1))
    return selected


def _finding_fields(finding: Finding, total: int) -> dict[str, Any]:
    extra = {"of": total} if total > MAX_PER_RULE else {}
    return {
        "rule": finding.rule,
        "label": str(finding.label),
        "score": _finite(finding.score),
        "layer": str(finding.layer),
        "path": mask_path(finding.path),
        "start": finding.start,
        "end": finding.end,
        "view": finding.view,
        "decides": finding.decides,
        "hint": finding.hint,
        "excepted": finding.excepted,
        "digest": finding.digest,
        **extra,
    }


def _layer_fields(report: LayerReport) -> dict[str, Any]:
    return {
        "layer": str(report.layer),
        "score": None if report.score is None else _finite(report.score),
        "elapsed_ms": _finite(report.elapsed * 1000),
        "failure": report.failure,
    }


def _finite(value: float) -> float | None:
    """None for NaN and infinity, which JSON and databases do not support."""
    return round(value, 4) if math.isfinite(value) else None


@lru_cache(maxsize=256)
def mask_route(route: str) -> str:
    """Replace path segments that are not plain words or ids with `*`: they may hold a prompt or a key."""
    parts = (part if len(part) <= _MAX_PART and _PLAIN.issuperset(part) else "*" for part in route.split("/"))
    return "/".join(parts)[:MAX_NAME]


def mask_path(path: str) -> str:
    """Replace unknown words with `*`: object keys are the client's text, too."""
    parts = path.split(".")[:32]
    return ".".join(part if part in _PATH_WORDS or (part.isdigit() and len(part) < 8) else "*" for part in parts)


def redact_texts(segments: Sequence[Segment], verdict: Verdict) -> list[str]:
    """The texts with the span of every finding replaced by its label.

    `segments` are the leading ones of those scanned. Left out are segments that the rules did not scan to the end, and
    texts of the application and the model, which are not scanned for personal data. Without a report of the rules the
    result is empty: it is unknown what to redact.
    """
    rules = next((r for r in verdict.reports if r.layer is LayerName.RULES and r.score is not None), None)
    if rules is None:
        return []
    unscanned = {index for index, report in enumerate(rules.segment_reports) if not report.complete}
    by_path: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        by_path.setdefault(finding.path, []).append(finding)
    return [UNSCANNED if n in unscanned else _redact_segment(s, by_path) for n, s in enumerate(segments)]


def _redact_segment(segment: Segment, by_path: Mapping[str, Sequence[Finding]]) -> str:
    """The storable text of a segment, given the findings by path."""
    if segment.channel is Channel.APPLICATION:
        return f"[{segment.source}]"
    paths = dict.fromkeys(segment.paths)
    return _replace_spans(segment, [finding for path in paths for finding in by_path.get(path, ())])


def _replace_spans(segment: Segment, findings: Sequence[Finding]) -> str:
    """Replace the spans of `findings`, all of this segment. PII without a span hides the whole segment.

    Invariant: `parts` covers the text up to `position`, so overlapping spans are replaced once.
    """
    if any(finding.start is None and finding.label is Label.PII_DETECTED for finding in findings):
        return f"[{Label.PII_DETECTED}]"
    parts, position = [], 0
    for finding in sorted((f for f in findings if f.start is not None), key=lambda f: f.start or 0):
        start, end = finding.start or 0, finding.end or 0
        if end <= position:
            continue
        if start >= position:
            parts += [segment.text[position:start], f"[{finding.label}]"]
        position = end
    return "".join([*parts, segment.text[position:]])
