"""Twin of sidecar/policy/profile_reductions.py: what lets more pass than the general settings is listed."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.config import Settings
from sidecar.policy.profile_reductions import profile_reductions
from sidecar.policy.reductions import reductions

GENERAL: dict[str, Any] = {
    "pii": "block",
    "responses": "flag",
    "untrusted": "fence",
    "failure": {"unmarked": "block"},
    "models": {"m": {"threshold": 0.3}},
    "rules": {"INJ-2": {"status": "hint"}},
}


def found(**profile: object) -> list[str]:
    """The lines about a profile."""
    return list(profile_reductions(Settings.model_validate({**GENERAL, "profiles": {"p": profile}})))


@pytest.mark.parametrize(
    ("profile", "line"),
    [
        ({"mode": "monitor"}, "mode monitor instead of enforce"),
        ({"pii": "redact"}, "pii redact instead of block"),
        ({"responses": "off"}, "responses off instead of flag"),
        ({"untrusted": "forward"}, "untrusted forward instead of fence"),
        ({"failure": {"unmarked": "allow"}}, "failure.unmarked: allow"),
        ({"sources": {"user": {"threshold": 0.7}}}, "threshold 0.7 instead of 0.6 for the source user"),
        ({"layers": ["rules"]}, "without the layer semantic"),
        ({"sources": {"user": {"layers": ["rules"]}}}, "without the layer semantic for the source user"),
        ({"policies": ["/srv/own"]}, "without the policies shipped"),
        ({"rules": {"INJ-1": {"status": "off"}}}, "rule INJ-1 off"),
        ({"rules": {"INJ-2": {"status": "off"}}}, "rule INJ-2 off"),
        ({"rules": {"INJ-1": {"score": 0.1}}}, "rule INJ-1 with a score of 0.1"),
        ({"failure": {"all": "allow"}}, "failure.all: allow"),
        ({"failure": {"input": {"budget": "allow"}}}, "failure.input.budget: allow"),
    ],
    ids=str,
)
def test_each_setting_that_lets_more_pass_is_listed(profile: dict[str, Any], line: str) -> None:
    """With the name of the profile and both values; a source's threshold also ends that of a model."""
    assert f"profile p: {line}" in found(**profile)


def test_a_threshold_below_that_of_a_source_and_above_that_of_a_model_is_listed_for_the_model() -> None:
    """0.5 is stricter than 0.6 for users, and looser than the 0.3 that a model has."""
    assert found(threshold=0.5) == ["profile p: threshold 0.5 instead of 0.3 for the model m"]


@pytest.mark.parametrize(
    "profile",
    [
        {},
        {"threshold": 0.3, "pii": "block", "responses": "block", "mode": "enforce"},
        {"policies": ["shipped", "/srv/own"]},
        {"rules": {"INJ-2": {"status": "block"}}},
        {"failure": {"llm_judge": "block"}},
        {"untrusted": "datamark"},
    ],
    ids=str,
)
def test_what_is_as_strict_is_not_listed(profile: dict[str, Any]) -> None:
    """Nor is what is stricter."""
    assert found(**profile) == []


def test_they_are_among_the_reductions() -> None:
    """With a reason of their own, which the metric and the alert have as label."""
    settings = Settings.model_validate({"profiles": {"p": {"threshold": 0.8}}})
    assert {reduction.reason for reduction in reductions(settings)} == {"profiles"}
