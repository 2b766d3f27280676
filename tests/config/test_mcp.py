"""Tests of the settings of the Model Context Protocol."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.config import Settings


def test_a_server_has_the_settings_of_an_upstream() -> None:
    """But its streams may be silent for long."""
    mcp = Settings.model_validate({"mcp": {"servers": {"docs": {"url": "https://docs.example/mcp"}}}}).mcp
    assert (mcp.servers["docs"].idle_timeout, mcp.servers["docs"].connect_timeout, mcp.drift) == (86_400.0, 5.0, "warn")


@pytest.mark.parametrize(
    ("mcp", "problem"),
    [
        ({"servers": {"docs": {}}}, "url"),
        ({"servers": {"docs": {"url": "echo://"}}}, "must be http or https"),
        ({"servers": {"docs": {"url": "https://user:word@docs.example"}}}, "holds a user"),
        ({"servers": {"a/b": {"url": "https://docs.example"}}}, "a/b"),
        ({"drift": "ignore"}, "drift"),
    ],
)
def test_wrong_settings_are_refused(mcp: dict[str, object], problem: str) -> None:
    """With the place."""
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate({"mcp": mcp})
