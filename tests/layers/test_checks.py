"""Checks of data that carries its own proof."""

from __future__ import annotations

import pytest

from sidecar.layers.checks import CHECKS


@pytest.mark.parametrize(
    ("name", "text", "sound"),
    [
        ("luhn", "4111 1111 1111 1111", True),
        ("luhn", "4111-1111-1111-1112", False),
        ("luhn", "0000 0000 0000 0000", False),
        ("iban", "DE89 3704 0044 0532 0130 00", True),
        ("iban", "DE89 3704 0044 0532 0130 01", False),
    ],
)
def test_check_digits(name: str, text: str, sound: bool) -> None:
    """A sum that does not fit is no number of that kind."""
    assert CHECKS[name](text) is sound
