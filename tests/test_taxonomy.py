"""Twin of sidecar/taxonomy.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar import policy
from sidecar.taxonomy import BY_LABEL, BY_RULE, identifiers
from sidecar.types import Label

CATALOGUES = (Path(__file__).parents[1] / "docs" / "threat-model.md").read_text("utf-8")
ALL = sorted({each for ids in (*BY_LABEL.values(), *BY_RULE.values()) for each in ids})


def test_every_label_and_every_shipped_rule_has_identifiers() -> None:
    """Of OWASP and of ATLAS."""
    assert set(BY_LABEL) == set(Label)
    for rule in policy.load(()).rules:
        ids = identifiers(rule.id, rule.label)
        assert any(each.startswith("LLM") for each in ids)
        assert any(each.startswith("AML.T") for each in ids)


@pytest.mark.parametrize("identifier", ALL)
def test_every_identifier_is_a_row_of_the_threat_model(identifier: str) -> None:
    """An id without its year, or a technique with or without a sub-technique."""
    name = re.escape(identifier.partition(":")[0])
    assert re.search(rf"(?m)^\| {name}(?:\.\d+)? ", CATALOGUES)


@pytest.mark.parametrize(
    ("rule", "label", "expected"),
    [
        ("INJ-100", Label.PROMPT_INJECTION, "AML.T0051"),
        ("semantic:jailbreak", Label.JAILBREAK, "AML.T0054"),
        ("PII-100", Label.PII_DETECTED, "MCP10:2025"),
        ("PII-700", Label.PII_DETECTED, "MCP01:2025"),
        ("ACT-LINK", Label.PROMPT_INJECTION, "AML.T0077"),
        ("ACT-PROVENANCE", Label.PROMPT_INJECTION, "AML.T0086"),
        ("ACT-103", Label.PROMPT_INJECTION, "ASI05:2026"),
    ],
)
def test_a_rule_says_more_than_its_label(rule: str, label: Label, expected: str) -> None:
    """Actions and secrets have identifiers of their own."""
    assert expected in identifiers(rule, label)
