"""Twin of sidecar/config/profiles.py: what a profile replaces, and what it may not name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sidecar.config import Settings
from sidecar.types import LayerName

GENERAL: dict[str, Any] = {
    "models": {"m": {"threshold": 0.3, "layers": ["rules"]}},
    "scan": {"sources": {"untrusted": {"threshold": 0.5}}},
    "failure": {"all": "allow", "input": {"media": "block"}},
    "rules": {"INJ-1": {"status": "hint"}},
}


def settings(**profile: object) -> Settings:
    """Settings in force for requests with this profile."""
    return Settings.model_validate({**GENERAL, "profiles": {"p": profile}}).of_profile("p")


def test_an_empty_profile_changes_nothing() -> None:
    """All settings are as for all others, and there are no further profiles to select."""
    assert settings() == Settings.model_validate(GENERAL)


def test_a_threshold_holds_for_every_source_and_model() -> None:
    """It stands before those of models and sources, except where the profile names a source itself."""
    own = settings(threshold=0.4, sources={"model": {"threshold": 0.8}})
    thresholds = {str(source): policy.threshold for source, policy in own.scan.sources.by_source.items()}
    assert own.scan.threshold == 0.4
    assert thresholds == {"user": None, "untrusted": None, "application": None, "model": 0.8}
    assert own.models["m"].threshold is None
    assert own.models["m"].layers == (LayerName.RULES,)


def test_without_a_threshold_those_of_models_and_sources_stay() -> None:
    """A profile about something else leaves them alone."""
    own = settings(pii="block")
    assert own.models["m"].threshold == 0.3
    assert own.scan.sources.untrusted.threshold == 0.5
    assert own.scan.sources.application.threshold == 0.9


def test_layers_switch_the_others_off() -> None:
    """And they stand before the layers of models."""
    own = settings(layers=["rules"])
    assert [layer for layer in LayerName if own.is_enabled(layer)] == [LayerName.RULES]
    assert own.models["m"].layers is None


def test_failures_and_rules_are_merged_line_by_line() -> None:
    """A line that is not given stays as it is for all."""
    own = settings(failure={"all": "block", "input": {"budget": "allow"}}, rules={"INJ-2": {"status": "off"}})
    assert (own.failure.all, own.failure.input.media, own.failure.input.budget) == ("block", "block", "allow")
    assert {rule: change.status for rule, change in own.rules.items()} == {"INJ-1": "hint", "INJ-2": "off"}


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"layers": ["llm_judge"]}, "profiles.p.layers: llm_judge is off for all"),
        ({"layers": []}, "at least 1"),
        ({"layers": ["magic"]}, "rules"),
        ({"budget": "often"}, "rate"),
        ({"burst": 3}, "needs a budget"),
        ({"pii": "block", "layers": ["semantic"]}, "profiles.p: pii: block needs layers.rules.enabled"),
        ({"thresholds": 1}, "xtra"),
    ],
)
def test_a_profile_that_names_something_unknown_is_refused(profile: dict[str, Any], words: str) -> None:
    """So is one that does not go together with the other settings."""
    with pytest.raises(ValidationError, match=words):
        settings(**profile)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 49, "-a"])
def test_names_are_short_and_plain(name: str) -> None:
    """They are written in a header and in the table of keys."""
    with pytest.raises(ValidationError):
        Settings.model_validate({"profiles": {name: {}}})


def test_a_profile_may_scan_responses_where_nobody_else_does() -> None:
    """A bare `off` of YAML is the word."""
    assert settings(responses="block").scans_for_pii
    assert settings(responses=False).responses == "off"
