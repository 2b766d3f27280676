"""Twin of sidecar/policy/reductions.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sidecar.config import Settings
from sidecar.policy import shipped_folder
from sidecar.policy.reductions import REASONS, Reduction, reductions
from sidecar.storage import ApiKey

TODAY = str(datetime.now(UTC).date())
EVERY_TEXT = {"rules": ["INJ-100"], "until": TODAY, "reason": "a lesson", "text": "(?s).*"}
PLACES: list[tuple[dict[str, Any], str, str]] = [
    ({"mode": "monitor"}, "mode", "mode: monitor"),
    ({"scan": {"threshold": 1}}, "threshold", "scan.threshold: 1"),
    ({"scan": {"threshold": 0.99}}, "threshold", "scan.threshold: 0.99"),
    ({"scan": {"sources": {"user": {"threshold": 1}}}}, "threshold", "scan.sources.user.threshold: 1"),
    ({"models": {"*": {"threshold": 1}}}, "threshold", "models.*.threshold: 1"),
    ({"layers": {"rules": {"enabled": False}, "semantic": {"enabled": False}}}, "layers", "all are off"),
    ({"layers": {"semantic": {"enabled": False}}}, "layers", "layers.semantic.enabled"),
    ({"scan": {"sources": {"user": {"layers": []}}}}, "sources", "scan.sources.user.layers"),
    ({"scan": {"sources": {"untrusted": {"layers": ["llm_judge"]}}}}, "sources", "scan.sources.untrusted.layers"),
    (
        {"scan": {"sources": {name: {"layers": []} for name in ("user", "untrusted", "application", "model")}}},
        "sources",
        "failure.all decides",
    ),
    ({"models": {"m": {"layers": []}}}, "models", "models.m.layers"),
    ({"rules": {"INJ-100": {"status": "off"}}}, "rules", "1 (INJ-100) switched off"),
    ({"rules": {f"INJ-{n}": {"status": "hint"} for n in range(7)}}, "rules", "7 (INJ-0, INJ-1, INJ-2"),
    ({"rules": {"INJ-100": {"score": 0.01}}}, "rules", "1 (INJ-100) have a score below the threshold"),
    ({"policies": ["/etc/prompt-sidecar/policies"]}, "policies", "without `shipped`"),
    ({"exceptions": [EVERY_TEXT]}, "exceptions", "exceptions.0: holds for every text"),
    ({"failure": {"rules": "skip"}}, "failure", "failure.rules: skip"),
    ({"failure": {"semantic": "skip"}}, "failure", "failure.semantic: skip"),
    ({"failure": {"all": "allow"}}, "failure", "failure.all: allow"),
    ({"failure": {"answer": "allow"}, "responses": "block"}, "failure", "failure.answer: allow"),
    ({"failure": {"overload": "allow"}}, "failure", "failure.overload: allow"),
    ({"failure": {"unknown_route": "allow"}}, "failure", "failure.unknown_route: allow"),
    ({"failure": {"input": {"malformed": "allow"}}}, "failure", "failure.input.malformed: allow"),
    ({"inline": {"files": "allow"}}, "failure", "inline.files: allow"),
    ({"profiles": {"p": {"mode": "monitor"}}}, "profiles", "profile p: mode monitor"),
]
KEY = ApiKey("8XWMibO0", "team-a", "production", datetime.now(UTC))


@pytest.mark.parametrize(("values", "reason", "words"), PLACES)
def test_each_setting_that_lets_more_pass_is_found(values: dict[str, Any], reason: str, words: str) -> None:
    """By its reason and by its name, once, and nothing else with it."""
    (found,) = reductions(Settings.model_validate(values))
    assert found.reason == reason
    assert words in found.text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"scan": {"threshold": 0.9}},
        {"policies": ["shipped", "/etc/prompt-sidecar/policies"]},
        {"policies": [str(shipped_folder())]},
        {"exceptions": [{**EVERY_TEXT, "until": "2020-01-01"}]},
        {"exceptions": [{**EVERY_TEXT, "key": "8XWMibO0"}]},
        {"rules": {"INJ-100": {"score": 0.9}}},
        {"failure": {"answer": "allow", "input": {"media": "allow"}, "llm_judge": "skip"}},
    ],
)
def test_what_lets_nothing_more_pass_is_not_found(values: dict[str, Any]) -> None:
    """The defaults are none, nor is an exception that ended or that is one key's."""
    assert reductions(Settings.model_validate(values)) == []


def test_keys_that_let_more_pass_are_found_while_they_are_valid() -> None:
    """By id and name; neither a key of the general terms nor one that was revoked."""
    now = datetime.now(UTC)
    keys = [
        KEY,
        replace(KEY, mode="monitor"),
        replace(KEY, threshold=0.99),
        replace(KEY, threshold=0.9, mode="enforce"),
        replace(KEY, mode="monitor", revoked_at=now),
        replace(KEY, mode="monitor", expires_at=now - timedelta(seconds=1)),
    ]
    assert reductions(Settings(), keys) == [
        Reduction("keys", "key 8XWMibO0 (team-a): mode monitor forwards everything, attacks too"),
        Reduction("keys", "key 8XWMibO0 (team-a): threshold 0.99 blocks hardly anything"),
    ]


def test_every_reason_has_a_place_here() -> None:
    """A new reason fails here until it has one."""
    assert {reason for _, reason, _ in PLACES} | {"keys"} == set(REASONS)


@pytest.mark.parametrize(
    ("rules", "words"),
    [("INJ-100=off,INJ-101=off", "2 (INJ-100, INJ-101) switched off"), ("INJ-100=block 0.2", "below the threshold")],
)
def test_rules_that_a_key_switches_are_found(rules: str, words: str) -> None:
    """Under the key's name; a score above the threshold is no reduction."""
    (found,) = reductions(Settings(), [replace(KEY, rules=rules)])
    assert (found.reason, words in found.text, "team-a" in found.text) == ("keys", True, True)
    assert reductions(Settings(), [replace(KEY, rules="INJ-100=block 0.9")]) == []
