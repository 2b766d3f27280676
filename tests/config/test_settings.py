"""Tests of loading and validating the settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sidecar import config
from sidecar.errors import ConfigError
from sidecar.upstream.http import HttpUpstream


def write(folder: Path, text: str) -> Path:
    """A settings file with this text."""
    path = folder / "settings.yaml"
    path.write_text(text, "utf-8")
    return path


def test_without_a_file_the_defaults_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing config.yaml is not an error: everything has a default."""
    monkeypatch.chdir(tmp_path)
    assert config.load(None, {}) == config.Settings()


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """A missing file that was requested is an error that names it."""
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        config.load(tmp_path / "absent.yaml", {})


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """SIDECAR__SECTION__KEY wins over the file, parsed as YAML."""
    path = write(tmp_path, "scan: {threshold: 0.7, deadline: 2s}")
    environ = {"SIDECAR__SCAN__THRESHOLD": "0.8", "SIDECAR__FAILURE__INPUT__MEDIA": "block", "OTHER": "1"}
    settings = config.load(path, environ)
    assert (settings.scan.threshold, settings.scan.deadline) == (0.8, 2.0)
    assert settings.failure.input.media == "block"


def test_a_secret_comes_from_the_file_that_the_environment_names(tmp_path: Path) -> None:
    """SIDECAR__STORE__URL_FILE reads the value; UPSTREAM__API_KEY_FILE is a setting itself and stays a path."""
    secret = tmp_path / "url"
    secret.write_text("sqlite:///elsewhere.db\n", "utf-8")
    environ = {"SIDECAR__STORE__URL_FILE": str(secret), "SIDECAR__UPSTREAM__API_KEY_FILE": str(secret)}
    settings = config.load(write(tmp_path, ""), environ)
    assert settings.store.url == "sqlite:///elsewhere.db"
    assert settings.upstream.api_key_file == secret


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One error has every problem, each with its place and, from the environment, its variable."""
    path = write(tmp_path, "scan: {threshold: 2, deadlin: 1s}\nlisten: {port: 99999}\nnonsense: 1")
    environ = {"SIDECAR__LIMITS__RATE": "often", "SIDECAR__STORE__URL_FILE": str(tmp_path / "absent")}
    with pytest.raises(ConfigError) as caught:
        config.load(path, environ)
    places = [problem.split(":")[0] for problem in caught.value.problems]
    assert sorted(places) == sorted(
        ["SIDECAR__STORE__URL_FILE", "scan.threshold", "scan.deadlin", "listen.port", "limits.rate", "nonsense"]
    )
    assert "SIDECAR__LIMITS__RATE" in str(caught.value)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 399])
def test_a_block_never_uses_a_status_that_clients_retry(tmp_path: Path, status: int) -> None:
    """SDKs retry 408, 409, 429 and 5xx, so these are rejected as status of a block."""
    with pytest.raises(ConfigError, match="block"):
        config.load(write(tmp_path, f"block: {{status: {status}}}"), {})


@pytest.mark.parametrize(
    "text",
    [
        "layers: {llm_judge: {between: [0.8, 0.2], url: 'http://x', model: m}}",
        "layers: {llm_judge: {url: 'http://x'}}",
        "upstream: {url: 'ftp://x'}",
        "- a list",
        "scan: [",
        "scan: {deadline: 5}",
        "inline: {routes: ['GET /v1/custom']}",
        "inline: {prefixes: [v1]}",
        "listen: {grpc_port: 9191}",
    ],
)
def test_inconsistent_settings_are_rejected(tmp_path: Path, text: str) -> None:
    """Inverted bands, judges without a model, unknown schemes, wrong shapes: each is an error."""
    with pytest.raises(ConfigError):
        config.load(write(tmp_path, text), {})


@pytest.mark.parametrize("pii", ["redact", "block"])
def test_pii_settings_need_the_rules(pii: str) -> None:
    """Without the rules layer the setting would have no effect."""
    with pytest.raises(ConfigError, match=f"pii: {pii} needs"):
        config.load(None, {"SIDECAR__PII": pii, "SIDECAR__LAYERS__RULES__ENABLED": "false"})


@pytest.mark.parametrize("mode", ["flag", "block", "ask"])
def test_actions_need_the_values_that_pii_redact_replaces(mode: str) -> None:
    """A placeholder cannot be looked up; `pii: block` and `actions.mode: off` are no such case."""
    with pytest.raises(ConfigError, match=f"actions.mode: {mode} cannot look up"):
        config.load(None, {"SIDECAR__PII": "redact", "SIDECAR__ACTIONS__MODE": mode})
    assert config.load(None, {"SIDECAR__PII": "block", "SIDECAR__ACTIONS__MODE": mode}).actions.mode == mode


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"SIDECAR__UNTRUSTED": "datamark", "SIDECAR__ACTIONS__MODE": "flag"}, "leaves no blanks"),
        ({"SIDECAR__UNTRUSTED": "fence", "SIDECAR__INLINE__WEBSOCKETS": "true"}, "does not mark their messages"),
    ],
)
def test_marks_exclude_what_they_would_hinder_or_miss(values: dict[str, str], message: str) -> None:
    """Actions look up values with blanks; messages of websockets are not marked. Fences and actions go together."""
    with pytest.raises(ConfigError, match=message):
        config.load(None, values)
    assert config.load(None, {"SIDECAR__UNTRUSTED": "fence", "SIDECAR__ACTIONS__MODE": "flag"}).untrusted == "fence"


def test_classes_of_actions_are_those_that_a_class_decides_about() -> None:
    """What reads is judged by its URL alone, whatever the classes are."""
    with pytest.raises(ConfigError, match=r"actions\.classes"):
        config.load(None, {"SIDECAR__ACTIONS__CLASSES": '["reads"]'})


def test_a_bare_off_is_off() -> None:
    """YAML parses it as false, in a file and in the environment."""
    assert config.load(None, {"SIDECAR__RESPONSES": "off"}).responses == "off"
    assert config.load(None, {"SIDECAR__RESPONSES": "flag"}).responses == "flag"


SECRET = "hunter2"


def start(path: Path, environ: dict[str, str]) -> HttpUpstream:
    """Load the settings and create the upstream, as a server does."""
    settings = config.load(path, environ)
    return HttpUpstream(settings.upstream.url, settings.upstream)


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://shop:{SECRET}@model.test",
        f"https://shop:{SECRET}@",
        f"https:///shop:p@ss/{SECRET}@",
        f"https://shop:a {SECRET} b@model.test:99999",
        f"https://{SECRET}@model.test:port",
        f"shop:{SECRET}@model.test",
    ],
)
def test_no_error_contains_the_credentials_of_a_url(tmp_path: Path, url: str) -> None:
    """For every setting, every defect, and every source of the setting."""
    other_settings = {"telemetry": {"endpoint": url}, "admin": {"url": url}, "store": {"queue": url}}
    environ = {"SIDECAR__UPSTREAM__URL": url}
    for values, variables in (({"upstream": {"url": url}}, {}), ({}, environ), (other_settings, {})):
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(values), "utf-8")
        with pytest.raises(ConfigError) as caught:
            start(tmp_path / "c.yaml", variables)
        assert SECRET not in str(caught.value)
        assert SECRET not in "".join(caught.value.problems)


def test_an_invalid_yaml_file_is_not_quoted(tmp_path: Path) -> None:
    """The message has only the line number and the problem."""
    (tmp_path / "c.yaml").write_text(f"mode: enforce\nupstream: {{url: 'https://shop:{SECRET}\n", "utf-8")
    with pytest.raises(ConfigError, match="line 3, found unexpected end of stream") as caught:
        config.load(tmp_path / "c.yaml")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("upstream", "message"),
    [
        ({"url": "https://me:secret@api.example"}, "holds a user"),
        ({"url": "https://api.example/v1?api-version=2026"}, "query or a fragment"),
        ({"url": "https://api.example/v1#x"}, "query or a fragment"),
        ({"url": "http://localhost:11434/v1/chat/completions"}, "give the base URL.*: http://localhost:11434/v1 "),
        ({"url": "https://api.example/v1/responses/"}, "ends in /responses"),
        ({"headers": {"add": {"Authorization": "Bearer x"}}}, "'Authorization' is no name"),
        ({"headers": {"add": {"Content-Length": "7"}}}, "'Content-Length' is no name"),
        ({"headers": {"add": {"a b": "7"}}}, "'a b' is no name"),
        ({"headers": {"add": {"X-Team": "a\r\nX: y"}}}, "the value of X-Team"),
    ],
)
def test_upstream_settings_that_cannot_take_effect_are_rejected(upstream: dict[str, object], message: str) -> None:
    """URL parts that no request would have, and headers that belong to the message or to a file."""
    with pytest.raises(ValueError, match=message):
        config.Settings.model_validate({"upstream": upstream})
