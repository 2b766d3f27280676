"""Twin of sidecar/cli/setting_warnings.py."""

from __future__ import annotations

import pytest

from sidecar.cli.setting_warnings import warnings
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
    ],
)
def test_settings_that_an_attacker_could_use_are_warned_of(values: dict[str, object], word: str) -> None:
    """Each opening that a client can cause has a warning of its own."""
    found = warnings(Settings.model_validate(values), {})
    assert any(word in warning for warning in found)


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
