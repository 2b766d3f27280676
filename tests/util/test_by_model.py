"""Tests of per-model lookup: the `models` table in settings, upstreams, thresholds and layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_proxy import CHAT

from sidecar.cli.setting_warnings import warnings
from sidecar.config import ModelOverrides, Settings
from sidecar.config import Upstream as UpstreamSettings
from sidecar.extraction.extraction import extract
from sidecar.extraction.routes import classify
from sidecar.runtime.reload import watched_files
from sidecar.scan.selection import select
from sidecar.types import Source
from sidecar.util import by_model

TABLE = {"gpt-4*": 1, "gpt-4o": 2, "claude-*": 3, "*/*": 4}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", 2),
        ("gpt-4o-mini", 1),
        ("claude-x", 3),
        ("org/m", 4),
        ("Claude-x", None),
        ("gpt-5", None),
        (None, None),
    ],
)
def test_an_exact_name_wins_then_the_first_pattern(model: str | None, expected: int | None) -> None:
    """Patterns are tried in the order of the table; a lookup without a model or a match returns None."""
    assert by_model.find(TABLE, model) == expected
    assert by_model.find({}, model) is None


def test_a_model_inherits_what_it_does_not_set() -> None:
    """Unset fields come from the default upstream, except credentials and added headers if the host differs."""
    default = UpstreamSettings(
        url="https://a.example",
        api_key_file=Path("a.key"),
        connections=7,
        idle_timeout="5s",
        headers={"remove": ["x-own"], "add": {"X-A": "1"}},
    )  # type: ignore[arg-type]
    slow = ModelOverrides.model_validate({"upstream": {"first_byte_timeout": "20m"}}).merged_with(default)
    assert (slow.url, slow.api_key_file, slow.first_byte_timeout) == ("https://a.example", Path("a.key"), 1200)
    moved = ModelOverrides.model_validate({"upstream": {"url": "https://b.example"}}).merged_with(default)
    assert (moved.url, moved.api_key_file, moved.connections, moved.idle_timeout) == ("https://b.example", None, 7, 5)
    assert (moved.headers.remove, moved.headers.add) == (default.headers.remove, {})
    assert ModelOverrides().merged_with(default) is default


def test_files_of_the_table_are_watched(tmp_path: Path) -> None:
    """The API key file of a model's upstream is watched, so that a renewed key is reloaded."""
    models: Any = {"m": {"upstream": {"url": "https://b.example", "api_key_file": str(tmp_path / "key")}}}
    assert tmp_path / "key" in watched_files(Settings(models=models), None, {})


def test_only_the_layers_of_a_model_scan_it() -> None:
    """A source that no configured layer scans is reported as unread."""
    models: Any = {"local": {"layers": []}}
    selection_input = extract(CHAT | {"model": "local"}, "/chat/completions", "openai")
    assert select(Settings(models=models), selection_input).unscanned == (Source.USER,)
    assert select(Settings(), selection_input).unscanned == ()


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/openai/deployments/gpt-4o/chat/completions?api-version=1", "gpt-4o"),
        ("/proxy/openai/deployments/gpt-4o/chat/completions", "gpt-4o"),
        ("/openai/v1/chat/completions", None),
        ("/v1/chat/completions", None),
    ],
)
def test_azure_names_the_model_in_the_path(path: str, model: str | None) -> None:
    """The deployment in the path is the model."""
    azure = "/openai/deployments/{deployment}"
    prefixes = ("/v1", azure, f"/proxy{azure}", "/openai/v1")
    assert classify("POST", path, prefixes=prefixes).deployment == model


def test_an_entry_hides_only_the_settings_it_sets() -> None:
    """A setting missing from the first matching entry is taken from the next one that matches."""
    models: Any = {"claude-*": {"threshold": 0.3}, "claude-opus-*": {"layers": []}}
    selection_input = extract(CHAT | {"model": "claude-opus-5"}, "/chat/completions", "openai")
    assert select(Settings(models=models), selection_input).unscanned == (Source.USER,)


@pytest.mark.parametrize(
    "settings",
    [
        {"models": {"m": {"layers": ["llm_judge"]}}},
        {"models": {"m": {"layers": ["semantic"]}}, "layers": {"semantic": {"enabled": False}}},
        {"models": {"m": {"layers": ["semantic"]}}, "pii": "block"},
        {"models": {"m": {"layers": []}}, "pii": "redact"},
    ],
)
def test_layers_that_read_nothing_are_refused_at_the_start(settings: dict[str, Any]) -> None:
    """The error names the model; an empty list is deliberate, and only warned about."""
    with pytest.raises(ValueError, match=r"models\.m\.layers"):
        Settings.model_validate(settings)
    empty = Settings.model_validate({"models": {"m": {"layers": []}}})
    assert any("models.m.layers" in line for line in warnings(empty, {}))
