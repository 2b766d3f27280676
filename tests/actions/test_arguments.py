"""Twin of sidecar/actions/arguments.py: whom and what a call reaches."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.actions.arguments import arguments_of, leaves
from sidecar.actions.conversation import parsed_call


def atoms(arguments: Any) -> list[tuple[str, str]]:
    """Kind and key of each atom."""
    return [(argument.atom.kind.value, argument.atom.key) for argument in arguments_of(arguments)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"to": "Ann Lee <Ann@Lee.example>"}, [("email", "ann@lee.example")]),
        ({"to": ["a@x.example", "b@x.example"]}, [("email", "a@x.example"), ("email", "b@x.example")]),
        ({"iban": "DE89 3704 0044 0532 0130 00"}, [("account", "DE89370400440532013000")]),
        ({"number": "+49 170 1234567"}, [("phone", "01234567")]),
        ({"account_number": "12345678"}, [("account", "12345678")]),
        ({"path": "/a/b/report-2.pdf"}, [("path", "/a/b/report-2.pdf")]),
        ({"order_id": "A-501"}, [("identifier", "a-501")]),
        ({"street": "Dock 4, 22 Pier Road"}, [("identifier", "dock 4"), ("identifier", "22 pier road")]),
        ({"command": "git push -f;"}, [("command", "git push -f")]),
        ({"fields": {"to": "a@x.example"}}, [("email", "a@x.example")]),
        ({"body": '{"target": "https://x.example/in"}'}, [("url", "x.example/in"), ("host", "x.example")]),
    ],
)
def test_the_atoms_of_a_call(arguments: Any, expected: list[tuple[str, str]]) -> None:
    """By the form of the value, and by the argument's name where digits say nothing."""
    assert atoms(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"body": "Write to a@x.example"},
        {"subject": "Invoice 4471-22"},
        {"date": "2026-05-01"},
        {"when": "2026-05-01T10:00:00+02:00"},
        {"amount": 12.5},
        {"role": "writer"},
        {"to_name": "High Mesa Title"},
        {"flag": True},
        {"nothing": None},
        "just a text that is no object",
        None,
    ],
)
def test_words_dates_and_amounts_are_no_atoms(arguments: Any) -> None:
    """Prose is not matched: an injection is obeyed, not quoted."""
    assert [atom for atom in atoms(arguments) if atom[0] != "identifier" or " " not in atom[1]] == []


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("A very long display name " * 12 + "<evil@x.example>", "evil@x.example"),
        ("https://x.example/in?d=" + "abcdefghij" * 30, "x.example/in?d=" + "abcdefghij" * 30),
        ("word " * 60 + "DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
    ],
)
def test_targets_in_long_values(value: str, key: str) -> None:
    """Padding hides no address, URL or account."""
    assert key in [found for _kind, found in atoms({"to": value})]


@pytest.mark.parametrize("extra", ["NaN", '"\\ud83d"', "-Infinity"])
def test_json_that_clients_read_is_read(extra: str) -> None:
    """In a text as well as in the call itself."""
    text = f'{{"to": "\\u0065vil@x.example", "n": {extra}, "body": "{"word " * 60}"}}'
    assert ("email", "evil@x.example") in atoms({"payload": text})
    assert ("email", "evil@x.example") in atoms(parsed_call("send_mail", text, "").arguments)


def test_depth_hides_nothing() -> None:
    """A value is read however deep it stands."""
    deep: Any = "a@x.example"
    for _ in range(500):
        deep = {"to": [deep]}
    assert list(leaves(deep)) == [("to", "a@x.example")]
