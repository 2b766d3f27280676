"""Twin of sidecar/cli/setting_warnings.py."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sidecar.cli.setting_warnings import exposures, unknown_rules, warnings
from sidecar.config import Settings
from sidecar.policy import shipped_folder


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"mode": "monitor"}, "monitor"),
        ({"failure": {"overload": "allow"}}, "overload"),
        ({"failure": {"all": "allow"}}, "failure.all"),
        ({"failure": {"input": {"malformed": "allow"}}}, "malformed"),
        ({"failure": {"unknown_route": "allow"}}, "unknown_route"),
        (
            {"upstream": {"url": "https://x", "api_key_file": "/run/key"}, "listen": {"host": "192.0.2.1"}},
            "auth.inline",
        ),
        ({"policies": ["mine"]}, "shipped"),
        ({"auth": {"cache": "60s"}}, "at most 5s"),
        ({"actions": {"mode": "block"}, "compat": {"litellm": True}}, "not for responses by compat.litellm"),
        (
            {"pii": "redact", "answers": {"restore": True}, "compat": {"agentgateway": True, "lakera": True}},
            "by compat.agentgateway, compat.lakera clients see",
        ),
        ({"untrusted": "fence", "compat": {"litellm": True}}, "no other entry point (compat.litellm) changes"),
        ({"layers": {"rules": {"enabled": False}, "semantic": {"enabled": False}}}, "nothing can be scanned"),
    ],
)
def test_settings_that_an_attacker_could_use_are_warned_of(values: dict[str, object], word: str) -> None:
    """Each opening that a client can cause has a warning of its own."""
    found = warnings(Settings.model_validate(values), {})
    assert any(word in warning for warning in found)


EXCEPTION = {"rules": ["INJ-100"], "until": str(datetime.now(UTC).date()), "reason": "a lesson"}


@pytest.mark.parametrize(
    ("terms", "warned"),
    [
        ({"text": "(?s).*"}, True),
        ({"path": "*"}, True),
        ({"tool": "*"}, True),
        ({"text": "(?s).*", "path": "*"}, True),
        ({"text": "translate '[^']*'"}, False),
        ({"path": "tools.*"}, False),
        ({"path": "*", "tool": "glossary_*"}, False),
        ({"path": "*", "key": "8fKq2mZx"}, False),
    ],
)
def test_an_exception_for_every_text_is_warned_of(terms: dict[str, str], warned: bool) -> None:
    """It switches its rules off, which a reviewer should read under `rules`."""
    settings = Settings.model_validate({"exceptions": [{**EXCEPTION, **terms}]})
    assert any("holds for every text" in warning for warning in warnings(settings, {})) is warned


def test_an_exception_that_outlives_those_of_the_dashboard_is_warned_of() -> None:
    """A year at most, there and here."""
    terms = {**EXCEPTION, "text": "a lesson", "until": "2999-01-01"}
    (warning,) = warnings(Settings.model_validate({"exceptions": [terms]}), {})
    assert warning == "exceptions.0: until 2999-01-01 is more than 366 days ahead"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"listen": {"host": "192.0.2.1"}}, ["listen.host: 192.0.2.1 without listen.hosts"]),
        ({"listen": {"host": "192.0.2.1", "hosts": ["sidecar.example"]}}, []),
        ({"admin": {"host": "::"}}, ["admin.host: :: serves"]),
        ({"log": {"prompts": "full"}}, ["log.prompts: full keeps every prompt"]),
        ({}, []),
    ],
)
def test_what_a_reviewer_would_ask_about_is_told_by_check(values: dict[str, object], words: list[str]) -> None:
    """One line each; a start does not repeat them."""
    settings = Settings.model_validate(values)
    found = exposures(settings)
    assert len(found) == len(words)
    assert all(line.startswith(word) for line, word in zip(found, words, strict=True))
    assert warnings(settings, {}) == []


def test_an_exception_of_a_rule_that_does_not_exist_is_told() -> None:
    """Rules of the policies, of the model, and whole layers do exist."""
    rules = ["INJ-100", "SEM-jailbreak", "semantic:*", "llm_judge:*", "INJ-1000", "judge:*"]
    settings = Settings.model_validate({"exceptions": [{**EXCEPTION, "text": "a lesson", "rules": rules}]})
    found = [line.rpartition(" ")[2] for line in unknown_rules(settings, ["INJ-100"])]
    assert found == ["INJ-1000", "judge:*"]


def test_the_defaults_give_no_cause_for_warnings() -> None:
    """Out of the box nothing that a client can cause is open."""
    assert warnings(Settings(), {}) == []


@pytest.mark.parametrize("paths", [["shipped", "mine"], [], ["mine", str(shipped_folder())]])
def test_policies_with_the_shipped_ones_are_not_warned_of(paths: list[str]) -> None:
    """By the word, by their folder, or by naming none."""
    assert warnings(Settings.model_validate({"policies": paths}), {}) == []


def test_variables_that_set_nothing_are_warned_of() -> None:
    """Beside the settings' own findings."""
    assert len(warnings(Settings(), {"SIDECAR_MODE": "monitor"})) == 1
