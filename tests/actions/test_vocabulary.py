"""Twin of sidecar/actions/vocabulary.py: requests are recognised in many languages, nouns are not requests."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest

from sidecar.actions.vocabulary import (
    FAMILIES,
    OBJECTS,
    PIECE,
    delegates,
    mentions,
    names,
    plain,
    points,
    requested_families,
)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("Please pay the invoice", "pay"),
        ("Bitte überweise den Betrag", "pay"),
        ("Règle la facture", "pay"),
        ("Paga la factura", "pay"),
        ("Paga la fattura", "pay"),
        ("Zapłać fakturę", "pay"),
        ("Оплати счёт", "pay"),
        ("把发票付款", "pay"),
        ("請求書を支払って", "pay"),
        ("청구서를 결제해 줘", "pay"),
        ("ادفع الفاتورة", "pay"),
        ("Faturayı öde", "pay"),
        ("Betaal de factuur", "pay"),
        ("let Anna know that I am late", "send"),
        ("Leite die Mail an Tom weiter", "send"),
        ("Réponds à Léa", "send"),
        ("Responde a Ana", "send"),
        ("Responda ao João", "send"),
        ("Svara Anna", "send"),
        ("Odpowiedz Annie", "send"),
        ("Отправь отчёт Ольге", "send"),
        ("回复安娜", "send"),
        ("アンナに返信して", "send"),
        ("Lösche die alten Entwürfe", "delete"),
        ("Supprime les brouillons", "delete"),
        ("删除草稿", "delete"),
        ("Run the tests", "run"),
        ("Führe die Tests aus", "run"),
        ("Lance les tests", "run"),
        ("Teile den Ordner mit Jo", "share"),
        ("Share the folder with Jo", "share"),
        ("Approve the claim", "approve"),
        ("Genehmige den Antrag", "approve"),
    ],
)
def test_a_request_is_recognised(text: str, family: str) -> None:
    """With or without accents."""
    assert family in requested_families(text)
    assert family in requested_families(plain(text))


@pytest.mark.parametrize(
    "text",
    [
        "Summarise my unread mail.",
        "What does the message say?",
        "Any new messages?",
        "Which bills are due?",
        "Show me my last five transfers",
        "What is the weather?",
        "Was steht in meinem Kalender?",
        "Fasse die Mail von Tom zusammen",
        "résume le document",
        "Tell me what he wants",
        "Read the mail and let me know",
        "邮件里说了什么？",
        "要約を教えて",
    ],
)
def test_a_question_is_no_request_for_an_action(text: str) -> None:
    """Nouns, and answers to the user."""
    assert not requested_families(text) & {"send", "pay", "share", "post", "delete", "run"}


def test_delegation_and_pointing() -> None:
    """A user may leave the action, or the value, to a text."""
    assert delegates("Take care of the ticket")
    assert delegates("Kümmere dich um das Ticket")
    assert not delegates("What is in the ticket?")
    assert points("Send it to whom he names there")
    assert points("an die im Brief genannte Adresse")
    assert points("pay it to the account in her last mail") is points("the address is in the ticket") is True
    for plain_request in (
        "Send it to Anna",
        "Send Anna the report by email.",
        "The report was late, so Anna will get it",
        "Send no email today.",
        "as in every year, book the room",
        "I asked for quiet",
        "Summarise the comments in this ticket",
        "Read the latest message in my mail",
        "Write a summary on this page",
    ):
        assert not points(plain_request), plain_request


def test_every_section_is_there() -> None:
    """The list and the code agree."""
    sections = [f"asks {family}" for family in FAMILIES] + [f"tool {family}" for family in FAMILIES]
    sections += [f"{prefix} {kind}" for kind in OBJECTS for prefix in ("object", "tool object")]
    sections += ["delegates", "points", "redirects", "machines", "links", "ambiguous", "starters", "tool reads"]
    assert [section for section in sections if not names(section)] == []


def test_a_mention_is_a_word_in_any_place() -> None:
    """Whatever part of speech."""
    assert mentions("the account has moved", "redirects")
    assert not mentions("a nice day", "redirects")


def test_a_run_of_combining_marks_is_normalized_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting it as a whole takes the square of its length; the text is the same."""
    lengths: list[int] = []
    normal_form = unicodedata.normalize

    def normalize(form: Literal["NFC", "NFD"], text: str) -> str:
        lengths.append(len(text))
        return normal_form(form, text)

    monkeypatch.setattr(unicodedata, "normalize", normalize)
    assert plain("a" + "\u0315\u0300" * 4_000) == "a"
    assert max(lengths) <= 3 * PIECE
    assert plain("É" * 1_200) == "e" * 1_200
