"""Twin of sidecar/response_scan/public_values.py."""

from __future__ import annotations

import pytest

from sidecar.response_scan.public_values import is_public


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("ada@example.com", "EMAIL"),
        ("AKIAIOSFODNN7EXAMPLE", "SECRET"),
        ("1-800-273-8255", "PHONE"),
        ("call 1-800-273-8255", "PHONE"),
        ("(800) 275-2273", "PHONE"),
        ("+1 888 555 2368", "PHONE"),
        ("18005551234", "PHONE"),
        ("604-555-0142", "PHONE"),
        ("6045550142", "PHONE"),
        ("202-456-1111", "PHONE"),
        ("+49 800 1110111", "PHONE"),
        ("+49 (0)800 1110111", "PHONE"),
        ("0800 1110111", "PHONE"),
        ("00:1A:2B:3C:4D:5E", "MAC"),
        ("00-00-5E-00-53-01", "MAC"),
        ("1600 Pennsylvania Avenue", "ADDRESS"),
    ],
)
def test_values_of_documentation_and_organisations_are_nobodys(value: str, kind: str) -> None:
    """In the spellings that they are usually written in."""
    assert is_public(value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("jon.frey@seepost.ch", "EMAIL"),
        ("604-555-2142", "PHONE"),
        ("202-456-7890", "PHONE"),
        ("+41 44 123 45 67", "PHONE"),
        ("+49 30 80012345", "PHONE"),
        ("800-273-8255 604-555-2142", "PHONE"),
        ("080-8123-4567", "PHONE"),
        ("08081234567", "PHONE"),
        ("080 0123 4567", "PHONE"),
        ("8001234567", "PHONE"),
        ("80012 34567", "PHONE"),
        ("+81 80 8123 4567", "PHONE"),
        ("4111 1111 1111 1111", "CARD"),
        ("8003 4567 8901 2345", "CARD"),
        ("800-555-0123", "ID"),
        ("pw=8005550123abc", "SECRET"),
        ("pw=800-555-0123", "SECRET"),
        ("3C:22:FB:9A:10:7E", "MAC"),
        ("00:1A:2B:3C:4D:5E", "SECRET"),
        ("1604 Pennsylvania Avenue", "ADDRESS"),
    ],
)
def test_other_values_are_not(value: str, kind: str) -> None:
    """A person's number, one that a public one is only a part of, and the same digits in data of another kind."""
    assert not is_public(value, kind)
