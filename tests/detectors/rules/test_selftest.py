"""Self-tests: the shipped policies pass, and a broken rule is reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sidecar import policy
from sidecar.actions.argument_rules import action_policy
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.detectors.rules.selftest import canary, run_selftests, unblocked_mentions, untested_patterns
from sidecar.errors import LayerError
from sidecar.policy import Policy, Rule
from sidecar.types import Finding, Label, LayerName, LayerReport, ScanRequest

IDS = Path(__file__).parents[2] / "data" / "rule_ids.txt"
RULE = {
    "id": "T-1",
    "title": "A test",
    "label": Label.JAILBREAK,
    "score": 0.9,
    "languages": ["en"],
    "patterns": [r"\bbanana\b"],
    "match": ["One banana please."],
    "no_match": ["Two bananas please."],
    "misses": ["A long yellow fruit."],
}


@pytest.fixture(scope="module")
def shipped() -> Policy:
    """The policies that come with the program."""
    return policy.load()


def policy_of(**changes: object) -> Policy:
    """A policy of one rule."""
    return Policy(rules=(Rule.model_validate({**RULE, **changes}),), revision="test")


async def test_the_shipped_policies_prove_themselves(shipped: Policy) -> None:
    """Every `match` line matches, no `no_match` or `misses` line does."""
    assert await run_selftests(shipped, [RulesLayer(shipped)]) == []


async def test_every_shipped_pattern_is_met_by_a_match_line(shipped: Policy) -> None:
    """A mistyped pattern is reported."""
    assert [problem for rule in shipped.rules for problem in await untested_patterns(rule)] == []


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, True),
        ({"literal": True}, False),
        ({"status": "hint"}, False),
        ({"label": Label.PII_DETECTED}, False),
    ],
)
async def test_a_rule_that_blocks_and_lets_mentions_pass_is_told(changes: dict[str, object], warned: bool) -> None:
    """With the text that is not blocked; not for rules that block it, or that never block alone."""
    problems = await unblocked_mentions(policy_of(**changes).rules[0])
    assert len(problems) == warned
    assert all("T-1: does not block" in problem and "literal: true" in problem for problem in problems)


async def test_a_pattern_that_no_match_line_meets_is_named() -> None:
    """The report names the rule, the number and the beginning of the pattern."""
    rule = policy_of(patterns=[r"\bbanana\b", r"\bbananna\b", "x" * 70]).rules[0]
    assert await untested_patterns(rule) == [
        r"T-1: pattern 2 of 3 matches no match line (\bbananna\b)",
        f"T-1: pattern 3 of 3 matches no match line ({'x' * 60}...)",
    ]


async def test_a_hit_that_is_no_order_proves_no_pattern() -> None:
    """A pattern must match with the weight of its status: a mitigated hit does not block."""
    quoted = 'Phrases such as "one banana please" are attacks.'
    assert len(await untested_patterns(policy_of(match=[quoted]).rules[0])) == 1
    assert await untested_patterns(policy_of(match=[quoted], status="test").rules[0]) == []


async def test_no_pattern_of_a_retired_rule_is_asked_for() -> None:
    """Retired rules are not tested."""
    assert await untested_patterns(policy_of(match=["No fruit."], status="retired").rules[0]) == []


async def test_each_rule_passes_its_selftest_alone(shipped: Policy) -> None:
    """Examples pass by their own rule only."""
    for half in (0, 1):
        half_policy = Policy(rules=shipped.rules[half::2], revision="half")
        failing = {problem.partition(":")[0] for problem in await run_selftests(shipped, [RulesLayer(half_policy)])}
        assert failing >= {rule.id for rule in shipped.rules[1 - half :: 2] if rule.status != "retired"}


class Counting:
    """The rules layer with a call counter."""

    name = LayerName.RULES

    def __init__(self, policy: Policy) -> None:
        self.layer, self.asked = RulesLayer(policy), 0

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """As the layer says."""
        self.asked += 1
        return await self.layer.scan(request, prior)


async def test_passed_rules_are_skipped_until_they_change() -> None:
    """Unchanged pattern rules are skipped; `hidden_in` rules are always tested."""
    policy, proven = policy_of(), set[Rule]()
    calls = []
    for tried in (policy, policy, policy_of(match=["A banana."]), policy_of(match=["No fruit."])):
        layer = Counting(tried)
        problems = await run_selftests(tried, [layer], proven)
        calls.append((layer.asked > 0, len(problems) > 0))
    assert calls == [(True, False), (False, False), (True, False), (True, True)]
    hiding = policy_of(patterns=(), hidden_in=["base64"], match=["Nothing hidden."])
    assert await run_selftests(hiding, [Counting(hiding)], proven)
    assert await run_selftests(hiding, [Counting(hiding)], proven)


async def test_rules_without_a_layer_are_not_marked_as_passed() -> None:
    """Rules are tested when they are switched on."""
    policy, proven = policy_of(match=["No fruit."]), set[Rule]()
    assert await run_selftests(policy, [], proven) == []
    assert await run_selftests(policy, [RulesLayer(policy)], proven)


def test_no_rule_ever_vanishes(shipped: Policy) -> None:
    """Rules are retired, not deleted: the list of ids only grows."""
    rules = [*shipped.rules, *action_policy().rules]
    assert sorted(rule.id for rule in rules) == sorted(IDS.read_text("utf-8").split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"match": ["No fruit."]}, "T-1: match 'No fruit.' is not matched (direct)"),
        (
            {"match": ['The phrase "banana" is in this text.']},
            "is matched with 0.90, too weakly for status block (direct)",
        ),
        ({"no_match": ["A banana!"]}, "T-1: no_match 'A banana!' is matched (indirect)"),
        ({"misses": ["Still a banana."]}, "T-1: misses 'Still a banana.' is matched (direct)"),
    ],
)
async def test_a_rule_that_breaks_its_word_is_named(changes: dict[str, object], said: str) -> None:
    """With the line and the channel."""
    broken = policy_of(**changes)
    found = await run_selftests(broken, [RulesLayer(broken)])
    assert any(problem.endswith(said) for problem in found), found


async def test_rules_of_an_absent_layer_are_left_out() -> None:
    """Without the semantic layer its rules cannot be asked, and that is no problem."""
    other = policy_of(patterns=[], similar_to=["a fruit"])
    assert await run_selftests(other, [RulesLayer(other)]) == []


async def test_a_retired_rule_is_not_asked() -> None:
    """Its examples stay in the file and say nothing any more."""
    retired = policy_of(status="retired")
    assert await run_selftests(retired, [RulesLayer(retired)]) == []


class Canned:
    """A layer that gives everything the same score, or fails."""

    name = LayerName.SEMANTIC

    def __init__(self, score: float | None) -> None:
        self._score = score

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """The one score there is."""
        if self._score is None:
            raise LayerError("closed")
        return LayerReport(self.name, self._score)


async def test_a_layer_that_cannot_tell_or_does_not_answer_is_found_before_it_serves(shipped: Policy) -> None:
    """The canary: rules must answer, a model must rate an attack above a harmless question."""
    assert await canary([RulesLayer(shipped)]) == []
    assert "does not tell" in (await canary([Canned(0.4)]))[0]
    assert "closed" in (await canary([Canned(None)]))[0]
