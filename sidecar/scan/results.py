"""The JSON of a verdict: the six fields of the specification, and those of `explain`."""

from __future__ import annotations

from sidecar.taxonomy import identifiers
from sidecar.types import Finding, LayerReport, Verdict


def scan_result(verdict: Verdict) -> dict[str, object]:
    """The six fields of the specification."""
    return {
        "risk_score": verdict.risk_score,
        "action": verdict.action,
        "threats": list(verdict.threats),
        "latency_ms": verdict.latency_ms,
        "layer_used": verdict.layer_used,
        "reasoning": verdict.reasoning,
    }


def explanation(verdict: Verdict) -> dict[str, object]:
    """The six fields, then findings, layers and the policy revision. Holds no text of the prompt."""
    return {
        **scan_result(verdict),
        "findings": [_finding(finding) for finding in verdict.findings],
        "layers": [_layer(report) for report in verdict.reports],
        "policy_revision": verdict.revision,
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "label": finding.label,
        "score": round(finding.score, 4),
        "layer": finding.layer,
        "path": finding.path,
        "start": finding.start,
        "end": finding.end,
        "view": finding.view,
        "decides": finding.decides,
        "hint": finding.hint,
        "excepted": finding.excepted,
        "evidence": finding.evidence,
        "taxonomy": list(identifiers(finding.rule, finding.label)),
    }


def _layer(report: LayerReport) -> dict[str, object]:
    return {
        "layer": report.layer,
        "score": None if report.score is None else round(report.score, 4),
        "elapsed_ms": round(report.elapsed * 1000, 3),
        "failure": report.failure,
        "detail": dict(report.detail),
    }
