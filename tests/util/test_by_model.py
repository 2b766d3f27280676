"""Twin of sidecar/util/by_model.py: the table of models, from the settings to upstreams, thresholds and layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from door import CHAT

from sidecar.cli.output import warnings
from sidecar.config import ModelTerms, Settings
from sidecar.config import Upstream as UpstreamSettings
from sidecar.extraction.extraction import extract
from sidecar.extraction.routes import classify
from sidecar.runtime.reload import watched_files
from sidecar.scan.selection import select
from sidecar.types import Source
from sidecar.util import by_model

TABLE = {"gpt-4*": 1, "gpt-4o": 2, "claude-*": 3, "*/*": 4}


@pytest.mark.parametrize(
    ("model", "found"),
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
def test_a_name_goes_before_patterns_and_these_in_order(model: str | None, found: int | None) -> None:
    """As the table is written."""
    assert by_model.find(TABLE, model) == found
    assert by_model.find({}, model) is None


def test_a_model_keeps_what_it_does_not_say() -> None:
    """Timeouts by one line; but no key, no field and no certificate of the default host goes to another."""
    default = UpstreamSettings(
        url="https://a.example",
        api_key_file=Path("a.key"),
        connections=7,
        idle_timeout="5s",
        headers={"remove": ["x-own"], "add": {"X-A": "1"}},
    )  # type: ignore[arg-type]
    slow = ModelTerms.model_validate({"upstream": {"first_byte_timeout": "20m"}}).over(default)
    assert (slow.url, slow.api_key_file, slow.first_byte_timeout) == ("https://a.example", Path("a.key"), 1200)
    other = ModelTerms.model_validate({"upstream": {"url": "https://b.example"}}).over(default)
    assert (other.url, other.api_key_file, other.connections, other.idle_timeout) == ("https://b.example", None, 7, 5)
    assert (other.headers.remove, other.headers.add) == (default.headers.remove, {})
    assert ModelTerms().over(default) is default


def test_files_of_the_table_are_watched(tmp_path: Path) -> None:
    """A key that is renewed is read again."""
    models: Any = {"m": {"upstream": {"url": "https://b.example", "api_key_file": str(tmp_path / "key")}}}
    assert tmp_path / "key" in watched_files(Settings(models=models), None, {})


def test_a_model_is_read_by_its_layers_alone() -> None:
    """What none of them reads is named."""
    models: Any = {"local": {"layers": []}}
    said = extract(CHAT | {"model": "local"}, "/chat/completions", "openai")
    assert select(Settings(models=models), said).unread == (Source.USER,)
    assert select(Settings(), said).unread == ()


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
    """What the path names is what is served."""
    azure = "/openai/deployments/{deployment}"
    prefixes = ("/v1", azure, f"/proxy{azure}", "/openai/v1")
    assert classify("POST", path, prefixes=prefixes).deployment == model


def test_an_entry_stands_in_nobodys_way() -> None:
    """What it does not state is taken from the next that fits."""
    models: Any = {"claude-*": {"threshold": 0.3}, "claude-opus-*": {"layers": []}}
    said = extract(CHAT | {"model": "claude-opus-5"}, "/chat/completions", "openai")
    assert select(Settings(models=models), said).unread == (Source.USER,)


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
    """The error names the model; an empty list is meant so, and warned of."""
    with pytest.raises(ValueError, match=r"models\.m\.layers"):
        Settings.model_validate(settings)
    empty = Settings.model_validate({"models": {"m": {"layers": []}}})
    assert any("models.m.layers" in line for line in warnings(empty))
