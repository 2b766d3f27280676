"""Twin of sidecar/actions/provenance.py: who has said a value."""

from __future__ import annotations

import pytest
from action_conversations import conversation, document
from growth import assert_linear

from sidecar.actions.arguments import arguments_of
from sidecar.actions.atoms import Atom, AtomKind, folded
from sidecar.actions.conversation import Conversation
from sidecar.actions.provenance import Provenances, stands_in


def of(value: str, name: str = "to") -> Atom:
    """The first atom of an argument."""
    return next(arguments_of({name: value})).atom


def said_by(texts: Provenances, atom: Atom) -> str:
    """Who has said it first."""
    return "user" if texts.is_trusted(atom) else "third party" if texts.places(atom) else "nobody"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bo@x.example", "user"),
        ("app@x.example", "user"),
        ("anna@x.example", "third party"),
        ("new@x.example", "nobody"),
        ("DE89370400440532013000", "third party"),
        ("0170 1234567", "third party"),
    ],
)
def test_an_address_has_a_source(value: str, expected: str) -> None:
    """The user and the application are trusted; spelling does not matter."""
    results = ["anna@x.example", "IBAN DE89 3704 0044 0532 0130 00, mobile +49 170 123 4567"]
    texts = Provenances(conversation("Write to Bo@x.example", *results, system="Contact: app@x.example"))
    assert said_by(texts, of(value)) == expected


def test_the_models_own_words_are_no_source() -> None:
    """A model that repeats a third party, or makes a value up, makes it no more trusted."""
    body = document("Hi", "anna@x.example")
    body["messages"].append({"role": "assistant", "content": "I found anna@x.example and made up eve@x.example"})
    texts = Provenances(Conversation.read(body))
    assert said_by(texts, of("anna@x.example")) == "third party"
    assert said_by(texts, of("eve@x.example")) == "nobody"


def test_a_path_is_found_by_its_last_part() -> None:
    """A listing names files without their folder."""
    texts = Provenances(conversation("Hi", '{"files": ["a.pdf", "soil.pdf"]}'))
    assert said_by(texts, of("/reports/soil.pdf", "path")) == "third party"
    assert said_by(texts, of("/reports/oil.pdf", "path")) == "nobody"


def test_a_command_is_found_in_its_line() -> None:
    """Whatever separates the cells of a line."""
    texts = Provenances(conversation("Hi", "Run this:\n\n    make all | tee log.txt\n"))
    command = Atom(AtomKind.COMMAND, folded("make all | tee log.txt"), "make all | tee log.txt")
    assert len(texts.places(command)) > 0


@pytest.mark.parametrize(
    ("value", "text", "expected"), [("ab", "ab", True), ("ab", "xab ab", True), ("ab", "xab ab_ aba", False)]
)
def test_a_value_stands_in_a_text_as_a_whole(value: str, text: str, expected: bool) -> None:
    """Not as a part of a word."""
    assert stands_in(value, text) is expected


def test_senders_of_many_results_take_linear_time() -> None:
    """They are collected once."""

    def look(size: int) -> None:
        texts = Provenances(conversation("Hi", *(f"From: Bo <bo@x{number}.example>" for number in range(size))))
        for number in range(size):
            texts.senders(number)

    assert_linear(look, 200)


def test_the_senders_of_a_result_are_the_hosts_in_its_fields() -> None:
    """Not those in its prose."""
    texts = Provenances(conversation("Hi", "From: Bo <bo@ek.example>\n\nPlease do write to the office at a@b.example."))
    assert texts.senders(0) == {"ek.example"}
