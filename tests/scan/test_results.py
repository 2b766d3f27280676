"""Twin of sidecar/scan/results.py."""

from __future__ import annotations

from sidecar.scan.results import explanation, scan_result
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict

FINDING = Finding("INJ-1", Label.PROMPT_INJECTION, 0.91239, LayerName.RULES, "prompt", 3, 9)
REPORT = LayerReport(LayerName.RULES, 0.91239, (FINDING,), 0.0012345)
VERDICT = Verdict(
    0.9, Action.BLOCK, (Label.PROMPT_INJECTION,), 12, LayerName.RULES, reports=(REPORT,), revision="abc", threshold=0.5
)


def test_a_result_has_the_six_fields_of_the_specification() -> None:
    """No more of them: clients of other scanners read them strictly."""
    result = {"risk_score": 0.9, "action": "block", "threats": ["prompt_injection"], "latency_ms": 12}
    assert scan_result(VERDICT) == {**result, "layer_used": "rules", "reasoning": None}


def test_an_explanation_adds_evidence_in_rounded_figures() -> None:
    """Findings with their ids in taxonomies, layers with milliseconds."""
    explained = explanation(VERDICT)
    (finding,), (layer,) = explained["findings"], explained["layers"]
    assert (finding["rule"], finding["score"], finding["start"], finding["end"]) == ("INJ-1", 0.9124, 3, 9)
    assert any(name.startswith("owasp") or "LLM01" in name for name in finding["taxonomy"])
    assert layer == {"layer": "rules", "score": 0.9124, "elapsed_ms": 1.234, "failure": None, "detail": {}}
    assert explained["policy_revision"] == "abc"
