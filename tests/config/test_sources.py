"""Tests of the sources of settings: a file, the environment over it, and secret files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sidecar.config.sources import override, read_file, unknown_variables, variable
from sidecar.errors import ConfigError


class SampleSection(BaseModel):
    """A section."""

    word: str = ""
    key_file: str = ""


class SampleSettings(BaseModel):
    """The settings."""

    part: SampleSection = SampleSection()


def merged(values: dict[str, Any], **environ: str) -> tuple[dict[str, Any], list[str]]:
    """The values merged with the environment, and the problems."""
    problems: list[str] = []
    override(values, {f"SIDECAR__{name}": value for name, value in environ.items()}, problems, SampleSettings)
    return values, problems


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("SIDECAR_PART_WORD", "x", "did you mean SIDECAR__PART__WORD?"),
        ("SIDECAR_PART__WORD", "x", "did you mean SIDECAR__PART__WORD?"),
        ("sidecar_part_wort", "x", "did you mean SIDECAR__PART__WORD?"),
        ("SIDECAR_ZEBRA", "x", "settings begin with SIDECAR__"),
        ("SIDECAR_PORT", "9000", "settings begin with SIDECAR__"),
    ],
)
def test_a_variable_that_only_looks_like_a_setting_is_named(name: str, value: str, meant: str) -> None:
    """With the name that was probably meant, where there is one."""
    (message,) = unknown_variables({name: value}, SampleSettings)
    assert message.startswith(f"{name}: sets nothing")
    assert message.endswith(meant)


def test_variables_of_others_are_not_named() -> None:
    """Settings, the client's key, and those that Kubernetes makes for a Service called sidecar."""
    names = ("SIDECAR__MODE", "SIDECAR_API_KEY", "SIDECAR_SERVICE_HOST", "SIDECAR_SERVICE_PORT_HTTP", "PATH")
    made = {"SIDECAR_PORT": "tcp://10.0.0.1:80", "SIDECAR_PORT_80_TCP_ADDR": "10.0.0.1"}
    assert unknown_variables({**dict.fromkeys(names, "x"), **made}, SampleSettings) == []


def test_the_environment_overrides_the_file() -> None:
    """Values are parsed as YAML."""
    assert merged({"part": {"word": "a", "n": 1}}, PART__N="2", PART__LIST="[a, b]") == (
        {"part": {"word": "a", "n": 2, "list": ["a", "b"]}},
        [],
    )


def test_a_secret_comes_from_a_file_unless_the_setting_is_a_file(tmp_path: Path) -> None:
    """Its content without the line break, not parsed as YAML."""
    secret = tmp_path / "word"
    secret.write_text("no: 1\n")
    assert merged({}, PART__WORD_FILE=str(secret), PART__KEY_FILE="k.txt") == (
        {"part": {"word": "no: 1", "key_file": "k.txt"}},
        [],
    )


def test_values_that_cannot_be_merged_are_problems() -> None:
    """Each is named by its variable."""
    _, problems = merged({"part": 1}, PART__WORD="x", OTHER_FILE="/nowhere/at/all")
    assert [problem.split(":")[0] for problem in problems] == ["SIDECAR__OTHER_FILE", "SIDECAR__PART__WORD"]


@pytest.mark.parametrize(("text", "values"), [("", {}), ("a: 1", {"a": 1})])
def test_a_file_is_a_mapping(tmp_path: Path, text: str, values: dict[str, int]) -> None:
    """Or empty."""
    (tmp_path / "c.yaml").write_text(text)
    assert read_file(tmp_path / "c.yaml") == values


@pytest.mark.parametrize("text", ["[1]", "a: [", "word"])
def test_anything_else_is_an_error(tmp_path: Path, text: str) -> None:
    """The message names the file."""
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"c\.yaml"):
        read_file(tmp_path / "c.yaml")


def test_the_variable_of_a_setting() -> None:
    """Sections are parted by two underscores."""
    assert variable("layers.llm_judge.url") == "SIDECAR__LAYERS__LLM_JUDGE__URL"
