"""Twin of sidecar/cli/greeting.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.cli import greeting
from sidecar.config import Settings

KEY = "psk_" + "a" * 57
FILE = Path("config.yaml")


def printed(capsys: pytest.CaptureFixture[str], **settings: object) -> str:
    """All that a first start prints under these settings."""
    made = Settings.model_validate(settings)
    greeting.greet(made, 8080, "http://127.0.0.1:8081", FILE)
    greeting.show_first_key(KEY, made, 8080)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("echo://", "echo:// (no model"),
        ("local://", "local:// (a tiny model"),
        ("https://api.openai.com", "https://api.openai.com"),
    ],
)
def test_upstream_mode_and_settings_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, words: str
) -> None:
    """What is forwarded where, whether anything is blocked, and where that was read."""
    monkeypatch.chdir(tmp_path)
    shown = printed(capsys, upstream={"url": url}, mode="monitor")
    assert f"upstream  {words}" in shown
    assert "mode      monitor (nothing is blocked)" in shown
    assert f"settings  the defaults, since there is no config.yaml in {tmp_path}" in shown


def test_the_file_and_the_number_of_variables_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file with its folder; variables are counted, since their values may be secret."""
    (tmp_path / "own.yaml").touch()
    monkeypatch.setenv("SIDECAR__MODE", "monitor")
    assert greeting.settings_source(tmp_path / "own.yaml") == f"{tmp_path}/own.yaml, and 1 variable SIDECAR__..."


def test_a_providers_chat_is_not_shown_with_our_key_and_a_model_that_it_has_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A provider needs its own key and model: the base URL is told instead."""
    shown = printed(capsys, upstream={"url": "https://api.openai.com"})
    assert "OpenAI(" not in shown
    assert "your provider's key: http://127.0.0.1:8080/v1" in shown


def test_the_lines_name_the_settings_file_that_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A key that is made with other settings may go into another store."""
    greeting.show_first_key(KEY, Settings(), 8080, Path("my own.yaml"))
    greeting.show_number_of_keys(2, Path("my own.yaml"))
    shown = capsys.readouterr().out
    assert "system prompt.' --config 'my own.yaml'\n" in shown
    assert "keys create NAME --config 'my own.yaml'\n" in shown
    greeting.show_number_of_keys(2)
    assert "keys create NAME\n" in capsys.readouterr().out


def test_without_the_sdk_the_chat_is_a_curl_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel does not bring the SDK."""
    monkeypatch.setattr(greeting, "find_spec", lambda _name: None)
    shown = printed(capsys)
    assert "curl -s http://127.0.0.1:8080/v1/chat/completions" in shown
    assert "import openai" not in shown
