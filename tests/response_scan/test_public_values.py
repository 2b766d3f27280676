"""Twin of sidecar/response_scan/public_values.py."""

from __future__ import annotations

import pytest

from sidecar.response_scan.public_values import is_public


@pytest.mark.parametrize(
    "value",
    [
        "ada@example.com",
        "AKIAIOSFODNN7EXAMPLE",
        "1-800-273-8255",
        "(800) 275-2273",
        "+1 888 555 2368",
        "604-555-0142",
        "202-456-1111",
        "+49 800 1110111",
        "0800 1110111",
        "00:1A:2B:3C:4D:5E",
        "00-00-5E-00-53-01",
        "1600 Pennsylvania Avenue",
    ],
)
def test_values_of_documentation_and_organisations_are_nobodys(value: str) -> None:
    """In the spellings that they are usually written in."""
    assert is_public(value)


@pytest.mark.parametrize(
    "value",
    [
        "jon.frey@seepost.ch",
        "604-555-2142",
        "202-456-7890",
        "+41 44 123 45 67",
        "+49 30 80012345",
        "4111 1111 1111 1111",
        "8003 4567 8901 2345",
        "3C:22:FB:9A:10:7E",
        "1604 Pennsylvania Avenue",
        "800-273-8255 604-555-2142",
    ],
)
def test_other_values_are_not(value: str) -> None:
    """A number of a person, and one that a public one is only a part of."""
    assert not is_public(value)
