"""Twin of sidecar/cli/output.py."""

from __future__ import annotations

import pytest

from sidecar.cli import output
from sidecar.config import Settings


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"mode": "monitor"}, "monitor"),
        ({"failure": {"overload": "allow"}}, "overload"),
        ({"failure": {"all": "allow"}}, "failure.all"),
        ({"failure": {"input": {"malformed": "allow"}}}, "malformed"),
        ({"failure": {"unknown_route": "allow"}}, "unknown_route"),
        ({"upstream": {"url": "https://x", "api_key_file": "/run/key"}}, "auth.inline"),
    ],
)
def test_settings_that_an_attacker_could_use_are_warned_of(values: dict[str, object], word: str) -> None:
    """Each opening that a client can cause has a warning of its own."""
    warnings = output.warnings(Settings.model_validate(values))
    assert any(word in warning for warning in warnings)


def test_the_defaults_give_no_cause_for_warnings() -> None:
    """Out of the box nothing that a client can cause is open."""
    assert output.warnings(Settings()) == []


def test_every_situation_has_its_line() -> None:
    """The failure policy is shown whole, nested lines too."""
    names = {name for name, _ in output.failure_lines(Settings())}
    assert {"failure.rules", "failure.all", "failure.input.oversize", "failure.unknown_route"} <= names
