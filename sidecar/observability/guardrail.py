"""A decision in the names proposed for guardrails: a span `apply_guardrail` with an event for each finding.

Names as in semantic-conventions-genai #427 (open; read in the prototype of December 2025). What the layers found
(`gen_ai.security.risk.*`) and what was done (`gen_ai.security.decision.type`) are apart: `warn` is a threat that
passed, since the mode is `monitor` or an entry point only recommends; `audit` is a request that passed unscanned. No
text of a prompt is in any attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sidecar import __version__
from sidecar.taxonomy import identifiers
from sidecar.types import Action, Decision, Finding, Label

SPAN = "apply_guardrail prompt-sidecar"
EVENT = "gen_ai.security.finding"
MAX_EVENTS = 20
"""Findings of a decision that become events, those that decided first."""
_CATEGORIES = {
    Label.PROMPT_INJECTION: "prompt_injection",
    Label.JAILBREAK: "jailbreak",
    Label.SYSTEM_PROMPT_EXTRACTION: "system_prompt_leakage",
    Label.PII_DETECTED: "sensitive_info_disclosure",
    Label.TOKEN_SMUGGLING: "prompt_injection",
}
_SEVERITIES = ((0.9, "critical"), (0.6, "high"), (0.3, "medium"), (0.0, "low"))


def attributes(decision: Decision) -> dict[str, Any]:
    """Of the span: who judged what, and what was done."""
    verdict = decision.verdict
    return {
        "gen_ai.operation.name": "apply_guardrail",
        "gen_ai.guardian.id": "prompt-sidecar",
        "gen_ai.guardian.name": "prompt-sidecar",
        "gen_ai.guardian.version": __version__,
        "gen_ai.guardian.provider.name": "prompt-sidecar",
        "gen_ai.security.target.type": "llm_output" if decision.entrypoint == "answer" else "llm_input",
        "gen_ai.security.decision.type": decision_type(decision),
        "gen_ai.security.decision.reason": ", ".join(verdict.threats) or verdict.failure or "nothing found",
        "gen_ai.security.decision.code": decision.status,
        "gen_ai.security.policy.version": verdict.revision,
    }


def decision_type(decision: Decision) -> str:
    """What was done: `deny`, `warn`, `audit` or `allow`."""
    if decision.action == Action.BLOCK:
        return "deny"
    if decision.verdict.threats:
        return "warn"
    return "audit" if decision.unscanned else "allow"


def events(decision: Decision) -> Iterator[dict[str, Any]]:
    """The attributes of each event."""
    ordered = sorted(decision.verdict.findings, key=lambda finding: (not finding.decides, -finding.score))
    for finding in ordered[:MAX_EVENTS]:
        yield _event(finding)


def _event(finding: Finding) -> dict[str, Any]:
    severity = next(name for least, name in _SEVERITIES if finding.score >= least)
    ids = identifiers(finding.rule, finding.label)
    return {
        "gen_ai.security.risk.category": _CATEGORIES[finding.label],
        "gen_ai.security.risk.severity": severity,
        "gen_ai.security.risk.score": round(finding.score, 4),
        "gen_ai.security.risk.metadata": [f"layer:{finding.layer}", *(f"id:{each}" for each in ids)],
        "gen_ai.security.policy.id": finding.rule,
    }
