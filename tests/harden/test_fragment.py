"""Twin of sidecar/harden/fragment.py."""

from __future__ import annotations

from pathlib import Path

from sidecar import policy
from sidecar.detectors.rules import selftest
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.harden.fragment import policy_file
from sidecar.harden.proposals import Candidate, Proposal
from sidecar.types import Label


def proposal(text: str, pattern: str, label: Label) -> Proposal:
    """A rule with one proof."""
    return Proposal(Candidate(f"Says {pattern}", pattern, label, ("en",)), ("Bake a cake.",), [text])


RULES = [
    proposal("red\u200b: blue\x1b[0m", r"\bred{s}blue\b", Label.JAILBREAK),
    proposal("Red,\n'green'", r"\bred{s}green\b", Label.JAILBREAK),
    proposal("白い馬", "白い馬", Label.TOKEN_SMUGGLING),
]


async def test_the_file_loads_and_passes_its_own_tests(tmp_path: Path) -> None:
    """Each rule has its label; controls and invisible characters come back as they were."""
    path = tmp_path / "new.yaml"
    path.write_text(policy_file(RULES), "ascii")
    rules = policy.load([path])
    assert [rule.match[0] for rule in rules.rules] == [rule.texts[0] for rule in RULES]
    assert [rule.label for rule in rules.rules] == [rule.candidate.label for rule in RULES]
    assert {rule.status for rule in rules.rules} == {"test"}
    assert await selftest.run_selftests(rules, [RulesLayer(rules)]) == []


def test_a_file_without_rules_loads_too(tmp_path: Path) -> None:
    """So that a configuration that names it starts."""
    path = tmp_path / "new.yaml"
    path.write_text(policy_file([]), "utf-8")
    assert policy.load([path]).rules == ()
