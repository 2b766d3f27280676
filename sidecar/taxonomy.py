"""Identifiers of public catalogues for what was found: OWASP's Top 10s and MITRE ATLAS (docs/threat-model.md).

OWASP: LLM applications 2025 (LLM), agentic applications 2026 (ASI), MCP 2025 (MCP). ATLAS: techniques as published in
September 2026 (AML.T). An identifier of OWASP ends in the year of its edition.
"""

from __future__ import annotations

from sidecar.types import Label

BY_LABEL: dict[Label, tuple[str, ...]] = {
    Label.PROMPT_INJECTION: ("LLM01:2025", "ASI01:2026", "MCP06:2025", "AML.T0051"),
    Label.JAILBREAK: ("LLM01:2025", "ASI01:2026", "AML.T0054"),
    Label.SYSTEM_PROMPT_EXTRACTION: ("LLM07:2025", "AML.T0056"),
    Label.PII_DETECTED: ("LLM02:2025", "MCP10:2025", "AML.T0057"),
    Label.TOKEN_SMUGGLING: ("LLM01:2025", "AML.T0068"),
}
_CALL = ("LLM06:2025", "ASI02:2026", "AML.T0053")
BY_RULE: dict[str, tuple[str, ...]] = {
    "ACT-LINK": ("LLM05:2025", "ASI02:2026", "AML.T0077"),
    "ACT-PROVENANCE": (*_CALL, "AML.T0086"),
    "ACT-": (*_CALL, "ASI05:2026", "MCP05:2025"),
    "PII-7": ("LLM02:2025", "MCP01:2025", "AML.T0057"),
}
"""By the beginning of a rule's id, where it says more than the label; the first that fits."""


def identifiers(rule: str, label: Label) -> tuple[str, ...]:
    """Those of a finding, by its rule and else by its label."""
    return next((ids for begin, ids in BY_RULE.items() if rule.startswith(begin)), BY_LABEL[label])
