"""Twin of sidecar/observability/guardrail.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sidecar.observability.guardrail import MAX_EVENTS, attributes, decision_type, events
from sidecar.types import Action, Decision, Finding, Label, LayerName, LayerReport, Verdict

FOUND = Finding("INJ-100", Label.PROMPT_INJECTION, 0.92, LayerName.RULES, "prompt")


def blocked(*findings: Finding) -> Verdict:
    """A verdict of the rules."""
    report = LayerReport(LayerName.RULES, 0.92, findings)
    return Verdict(0.92, Action.BLOCK, (Label.PROMPT_INJECTION,), 3, LayerName.RULES, reports=(report,), revision="r")


BLOCKED = blocked(FOUND)
DECISION = Decision("dec_1", datetime(2026, 11, 29, tzinfo=UTC), "inline", "/v1", BLOCKED, "block", 400)
SAFE = replace(BLOCKED, action=Action.ALLOW, threats=(), reports=(), risk_score=0.0)


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (DECISION, "deny"),
        (replace(DECISION, action="monitor", status=200), "warn"),
        (replace(DECISION, verdict=SAFE, action="allow", unscanned="media"), "audit"),
        (replace(DECISION, verdict=SAFE, action="allow"), "allow"),
    ],
)
def test_what_was_found_and_what_was_done_are_apart(decision: Decision, expected: str) -> None:
    """A threat that passes is a warning, what passes unscanned is told."""
    assert decision_type(decision) == expected
    assert attributes(decision)["gen_ai.security.decision.type"] == expected


def test_a_finding_is_an_event_with_identifiers() -> None:
    """Category, severity, score and rule."""
    (event,) = events(DECISION)
    assert event["gen_ai.security.risk.category"] == "prompt_injection"
    assert event["gen_ai.security.risk.severity"] == "critical"
    assert (event["gen_ai.security.risk.score"], event["gen_ai.security.policy.id"]) == (0.92, "INJ-100")
    assert {"layer:rules", "id:LLM01:2025", "id:AML.T0051"} <= set(event["gen_ai.security.risk.metadata"])


def test_those_that_decided_come_first_and_not_too_many() -> None:
    """A text may have thousands of findings."""
    hints = [replace(FOUND, rule=f"INJ-{number}", decides=False, score=1.0) for number in range(100)]
    many = replace(DECISION, verdict=blocked(*hints, FOUND))
    listed = list(events(many))
    assert len(listed) == MAX_EVENTS
    assert listed[0]["gen_ai.security.policy.id"] == "INJ-100"


@pytest.mark.parametrize("label", Label)
@pytest.mark.parametrize("score", [0.0, 0.45, 0.6, 1.0])
def test_every_label_and_score_has_a_category_and_a_severity(label: Label, score: float) -> None:
    """None is missing."""
    finding = replace(FOUND, label=label, score=score)
    (event,) = events(replace(DECISION, verdict=blocked(finding)))
    assert event["gen_ai.security.risk.category"]
    assert event["gen_ai.security.risk.severity"] in {"low", "medium", "high", "critical"}
