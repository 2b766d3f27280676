"""Operators change single rules by settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import policy
from sidecar.config import RuleOverride, Settings
from sidecar.errors import PolicyError
from sidecar.policy.switches import switched
from sidecar.runtime.builder import pipeline
from sidecar.types import Channel, ScanRequest, Segment
from tests.support import ONE_RULE

RULES = policy.load([Path(__file__).parent / "data" / "one_rule.yaml"])
(RULE,) = RULES.rules


def test_a_rule_is_switched_off_or_made_a_hint() -> None:
    """Off is what `retired` is; nothing else of the rule changes."""
    (off,) = switched(RULES, {RULE.id: RuleOverride(status="off")}).rules
    (hint,) = switched(RULES, {RULE.id: RuleOverride(status="hint")}).rules
    assert (off.status, hint.status) == ("retired", "hint")
    assert hint.patterns == RULE.patterns


def test_a_score_holds_on_every_channel() -> None:
    """Also where the rule had one of its own."""
    own = policy.Policy(rules=(RULE.model_copy(update={"indirect_score": 0.9}),), revision="x")
    (rule,) = switched(own, {RULE.id: RuleOverride(score=0.4)}).rules
    assert {rule.score_on(channel) for channel in rule.channels} == {0.4}
    assert rule.score_on(Channel.INDIRECT) == 0.4


def test_the_revision_names_the_change() -> None:
    """What was remembered of texts before is not asked again; no change, no other revision."""
    assert switched(RULES, {}) is RULES
    one, other = (switched(RULES, {RULE.id: RuleOverride(score=score)}).revision for score in (0.4, 0.5))
    assert len({RULES.revision, one, other}) == 3


def test_an_unknown_rule_is_an_error_with_suggestions() -> None:
    """All of them at once."""
    near = f"{RULE.id[:-1]}X"
    with pytest.raises(PolicyError) as caught:
        switched(RULES, {near: RuleOverride(status="off"), "ZZZ-9": RuleOverride(status="off")})
    assert caught.value.problems[0] == f"rules.{near}: no rule has this id; did you mean {RULE.id}?"
    assert len(caught.value.problems) == 2


async def test_the_settings_reach_the_pipeline() -> None:
    """A bare `off` is what YAML reads as false."""
    settings = Settings.model_validate({**ONE_RULE, "rules": {RULE.id: {"status": False}}})
    async with pipeline(settings) as built:
        verdict = await built.engine.scan(ScanRequest((Segment(RULE.match[0]),)))
    assert (verdict.action, verdict.findings) == ("allow", ())
