"""Twin of sidecar/actions/provenance.py: who has said a value."""

from __future__ import annotations

import pytest
from action_conversations import conversation
from growth import assert_linear

from sidecar.actions.arguments import arguments_of
from sidecar.actions.atoms import Atom, AtomKind, folded
from sidecar.actions.conversation import ToolCall
from sidecar.actions.provenance import Provenance, Provenances, stands_in


def of(value: str, name: str = "to") -> Atom:
    """The first atom of an argument."""
    return next(arguments_of({name: value})).atom


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bo@x.example", Provenance.TRUSTED),
        ("app@x.example", Provenance.TRUSTED),
        ("anna@x.example", Provenance.UNTRUSTED),
        ("new@x.example", Provenance.NOWHERE),
        ("DE89370400440532013000", Provenance.UNTRUSTED),
        ("0170 1234567", Provenance.UNTRUSTED),
    ],
)
def test_an_address_has_a_source(value: str, expected: Provenance) -> None:
    """The user and the application are trusted; spelling does not matter."""
    results = ["anna@x.example", "IBAN DE89 3704 0044 0532 0130 00, mobile +49 170 123 4567"]
    texts = Provenances(conversation("Write to Bo@x.example", *results, system="Contact: app@x.example"))
    assert texts.provenance(of(value)) is expected


def test_the_models_own_words_do_not_make_a_value_trusted() -> None:
    """A model that repeats a third party is no second source."""
    talk = conversation("Hi", "anna@x.example")
    talk.model.append("I found anna@x.example and made up eve@x.example")
    talk.calls.append(ToolCall("note", {"text": "mia@x.example"}))
    texts = Provenances(talk)
    assert texts.provenance(of("anna@x.example")) is Provenance.UNTRUSTED
    assert texts.provenance(of("eve@x.example")) is Provenance.MODEL
    assert texts.provenance(of("mia@x.example")) is Provenance.MODEL


def test_a_path_is_found_by_its_last_part() -> None:
    """A listing names files without their folder."""
    texts = Provenances(conversation("Hi", '{"files": ["a.pdf", "soil.pdf"]}'))
    assert texts.provenance(of("/reports/soil.pdf", "path")) is Provenance.UNTRUSTED
    assert texts.provenance(of("/reports/oil.pdf", "path")) is Provenance.NOWHERE


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
