"""The rules about addresses that carry data away, on attacks and harmless twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar import policy
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.policy import Policy
from sidecar.types import ScanRequest, Segment, Source

SETS: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "data" / "links.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def layer() -> RulesLayer:
    """These rules alone."""
    rules = tuple(rule for rule in policy.load().rules if rule.id in {f"INJ-{number}" for number in range(134, 139)})
    assert len(rules) == 5
    return RulesLayer(Policy(rules=rules, revision="test"))


async def blocked(layer: RulesLayer, texts: list[str], source: Source) -> list[str]:
    """The texts that a rule blocks alone."""
    reports = [(text, await layer.scan(ScanRequest((Segment(text, source),)), ())) for text in texts]
    return [text for text, report in reports if any(finding.decides for finding in report.findings)]


@pytest.mark.parametrize(
    ("part", "in_results", "of_users"), [("first", 19, 14), ("second", 7, 6)], ids=["first", "second"]
)
async def test_addresses_that_carry_the_conversation_are_blocked(
    layer: RulesLayer, part: str, in_results: int, of_users: int
) -> None:
    """In a tool's result more than in a user's turn, whose own data the user may put where they like."""
    attacks = SETS[part]["attacks"]
    assert len(await blocked(layer, attacks, Source.UNTRUSTED)) >= in_results
    assert len(await blocked(layer, attacks, Source.USER)) >= of_users


@pytest.mark.parametrize("part", list(SETS))
@pytest.mark.parametrize("source", [Source.UNTRUSTED, Source.USER])
async def test_templates_badges_and_mails_pass(layer: RulesLayer, part: str, source: Source) -> None:
    """Documentation of addresses is no order."""
    assert await blocked(layer, SETS[part]["harmless"], source) == []
