"""Tests of the settings of an upstream."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.config import Upstream


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "ftp://model.example"}, "the scheme must be"),
        ({"url": "https://ada:word@model.example"}, "holds a user"),
        ({"url": "https://model.example?a=b"}, "ends in a query"),
        ({"proxy": "http://ada:word@proxy.example"}, "holds a user"),
    ],
)
def test_an_address_with_what_belongs_elsewhere_is_refused(settings: dict[str, str], problem: str) -> None:
    """Credentials are in files, a query is the client's."""
    with pytest.raises(ValidationError, match=problem):
        Upstream(**settings)


def test_the_default_answers_itself() -> None:
    """For trying it out."""
    assert Upstream().url == "echo://"
