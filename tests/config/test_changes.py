"""Twin of sidecar/config/changes.py."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.config import Settings
from sidecar.config.changes import displays, record, record_changes, settings_changes, shortened

EXCEPTION = {"rules": ["INJ-100"], "until": "2026-12-31", "reason": "a secret lesson", "text": "secret .*"}


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ({}, []),
        ({"mode": "monitor"}, ["mode enforce to monitor"]),
        ({"scan": {"threshold": 1}}, ["scan.threshold 0.6 to 1"]),
        ({"layers": {"semantic": {"enabled": False}}}, ["layers.semantic.enabled true to false"]),
        (
            {"scan": {"sources": {"user": {"layers": []}}}},
            ["scan.sources.user.layers [rules, semantic, llm_judge] to []"],
        ),
        ({"rules": {"INJ-100": {"status": "off"}}}, ["rules.INJ-100.status none to off"]),
        ({"models": {"m": {"threshold": 1}}}, ["models.m.threshold 0.6 (scan.threshold) to 1"]),
        (
            {"models": {"m": {"upstream": {"url": "https://example.org/v1"}}}},
            ["models.m.upstream.url changed"],
        ),
        (
            {"scan": {"sources": {"user": {"threshold": 0.8}}}},
            ["scan.sources.user.threshold 0.6 (scan.threshold) to 0.8"],
        ),
        (
            {"profiles": {"shop": {"threshold": 0.9, "pii": "block", "failure": {"all": "allow"}}}},
            [
                "profiles.shop.threshold 0.6 (scan.threshold) to 0.9",
                "profiles.shop.pii flag (pii) to block",
                "profiles.shop.failure.all block (failure.all) to allow",
            ],
        ),
        (
            {"profiles": {"shop": {"sources": {"model": {"threshold": 0.7}}, "budget": "5/second"}}},
            [
                "profiles.shop.sources.model.threshold 0.9 (scan.sources.model.threshold) to 0.7",
                "profiles.shop.budget none to 5/second",
            ],
        ),
        ({"policies": ["mine"]}, ["policies [] to [mine]"]),
        ({"failure": {"all": "allow"}}, ["failure.all block to allow"]),
        ({"log": {"retention": "90d", "bytes": "1GiB"}}, ["log.retention 30d to 90d", "log.bytes 768MiB to 1GiB"]),
        ({"scan": {"deadline": "1500ms"}}, ["scan.deadline 4s to 1500ms"]),
        ({"limits": {"rate": "5/second"}}, ["limits.rate 600/minute to 5/second"]),
        ({"upstream": {"url": "https://example.org/v1"}}, ["upstream.url changed"]),
        ({"upstream": {"headers": {"add": {"x-team": "secret"}}}}, ["upstream.headers.add.x-team changed"]),
        ({"answers": {"canary": "secret-canary"}}, ["answers.canary changed"]),
        ({"alerts": {"url": "https://hooks.example/secret"}}, ["alerts.url changed"]),
    ],
)
def test_a_change_is_named_with_its_values_unless_they_are_free_text(values: dict[str, Any], lines: list[str]) -> None:
    """Both ways, and nothing for what is the same."""
    changed = Settings.model_validate(values)
    assert settings_changes(Settings(), changed) == lines
    assert len(settings_changes(changed, Settings())) == len(lines)
    assert settings_changes(changed, changed) == []
    records = record(Settings(), b"k"), record(changed, b"k")
    assert record_changes(*records) == lines
    assert len(record_changes(*reversed(records))) == len(lines)
    assert "secret" not in str(records)


def test_all_settings_are_shown_but_free_text() -> None:
    """As they are written, and nothing that may be secret."""
    values = displays(Settings.model_validate({"alerts": {"url": "https://hooks.example/secret"}}))
    assert (values["log.retention"], values["log.prompts"], values["alerts.pause"]) == ("30d", "none", "15m")
    assert values["alerts.url"] == "(not shown)"
    assert "secret" not in str(values).replace("secrets", "").replace("client_secret_file", "")


def test_of_an_exception_neither_pattern_nor_reason_is_shown() -> None:
    """Its day is."""
    lines = settings_changes(Settings(), Settings.model_validate({"exceptions": [EXCEPTION]}))
    assert "exceptions.0.until none to 2026-12-31" in lines
    assert "exceptions.0.text changed" in lines
    assert all(line.startswith("exceptions.0.") for line in lines)
    assert not any("secret" in line for line in lines)


def test_many_changes_are_one_short_line() -> None:
    """The first ones, and the number of the others."""
    assert shortened(["a", "b"], 100) == "a, b"
    assert shortened(["a"] * 8, 20) == "a, a, a and 5 more"
    assert shortened(["x" * 30] * 2, 20) == "2 changes"
