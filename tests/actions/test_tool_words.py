"""Twin of sidecar/actions/tool_words.py: what names and descriptions say that a tool does."""

from __future__ import annotations

import pytest

from sidecar.actions.tool_words import described_action, families_of, foreign_families, named_action


@pytest.mark.parametrize(
    ("name", "families", "is_sure"),
    [
        ("post remove", {"delete"}, True),
        ("contact get", set(), True),
        ("mail suche", {"send"}, False),
        ("send money", {"pay"}, True),
        ("create payment", {"pay"}, False),
        ("order status", set(), False),
        ("open garage", {"change"}, True),
    ],
)
def test_a_verb_in_a_name_decides(name: str, families: set[str], is_sure: bool) -> None:
    """A noun alone is not sure."""
    action = named_action(name.split())
    assert action
    assert (action.families, action.is_sure, action.reads) == (families, is_sure, not families)


def test_a_name_may_say_nothing() -> None:
    """Then the description is asked."""
    assert named_action(["frobnicate"]) is None


@pytest.mark.parametrize(
    ("description", "family"),
    [
        ("Sends a letter.", "send"),
        ("Create and send an envelope.", "send"),
        ("Betaalt een rekening.", "pay"),
        ("Wykonuje przelew krajowy.", "pay"),
        ("FAST ile para gönderir.", "pay"),
        ("Invita a una persona externa.", "share"),
        ("Führt einen Befehl aus.", "run"),
        ("Удалить сообщение.", "delete"),
        ("메일을 보낸다.", "send"),
        ("Schreibt eine Datei.", "change"),
    ],
)
def test_a_description_says_it_by_its_verbs(description: str, family: str) -> None:
    """The first word, one after an `and`, the last one, or any after a verb like `make`."""
    action = described_action(description)
    assert action
    assert family in action.families


@pytest.mark.parametrize(
    "description", ["Fetch logs.", "Liest eine E-Mail.", "Hesap bakiyesini gösterir.", "메일을 검색한다."]
)
def test_a_description_says_that_a_tool_reads(description: str) -> None:
    """Whatever it reads."""
    action = described_action(description)
    assert action
    assert action.reads


@pytest.mark.parametrize("description", ["", "Text of a receipt.", "Balance."])
def test_a_description_without_a_verb_says_nothing(description: str) -> None:
    """A noun is none."""
    assert described_action(description) is None


def test_words_that_update_only_change() -> None:
    """They are among those for installing, too."""
    assert foreign_families("aktualisiert") == {"change"}
    assert families_of("delete") == {"delete"}
