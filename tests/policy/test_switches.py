"""Operators change single rules by settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import policy
from sidecar.config import RuleOverride, Settings
from sidecar.errors import PolicyError
from sidecar.policy.switches import apply_switches
from sidecar.runtime.builder import open_scanner
from sidecar.types import Channel, ScanRequest, Segment
from tests.support import ONE_RULE

RULES = policy.load([Path(__file__).parents[1] / "data" / "one_rule.yaml"])
(RULE,) = RULES.rules


def test_a_rule_is_switched_off_or_made_a_hint() -> None:
    """`off` retires a rule and changes nothing else."""
    (off,) = apply_switches(RULES, {RULE.id: RuleOverride(status="off")}).rules
    (hint,) = apply_switches(RULES, {RULE.id: RuleOverride(status="hint")}).rules
    assert (off.status, hint.status) == ("retired", "hint")
    assert hint.patterns == RULE.patterns


def test_a_score_holds_on_every_channel() -> None:
    """A score set here also replaces channel scores."""
    changed = policy.Policy(rules=(RULE.model_copy(update={"indirect_score": 0.9}),), revision="x")
    (rule,) = apply_switches(changed, {RULE.id: RuleOverride(score=0.4)}).rules
    assert {rule.score_on(channel) for channel in rule.channels} == {0.4}
    assert rule.score_on(Channel.INDIRECT) == 0.4


def test_the_revision_names_the_change() -> None:
    """A change gives a new revision, so cached results are not reused; no change keeps it."""
    assert apply_switches(RULES, {}) is RULES
    revision, other = (apply_switches(RULES, {RULE.id: RuleOverride(score=score)}).revision for score in (0.4, 0.5))
    assert len({RULES.revision, revision, other}) == 3


def test_an_unknown_rule_is_an_error_with_suggestions() -> None:
    """All of them at once."""
    near = f"{RULE.id[:-1]}X"
    with pytest.raises(PolicyError) as caught:
        apply_switches(RULES, {near: RuleOverride(status="off"), "ZZZ-9": RuleOverride(status="off")})
    assert caught.value.problems[0] == f"rules.{near}: no rule has this id; did you mean {RULE.id}?"
    assert len(caught.value.problems) == 2


async def test_the_settings_reach_the_pipeline() -> None:
    """A bare `off` is what YAML reads as false."""
    settings = Settings.model_validate({**ONE_RULE, "rules": {RULE.id: {"status": False}}})
    async with open_scanner(settings) as built:
        verdict = await built.engine.scan(ScanRequest((Segment(RULE.match[0]),)))
    assert (verdict.action, verdict.findings) == ("allow", ())
