"""Twin of sidecar/response_scan/placeholders.py: one value, one name; and the value back for its name."""

from __future__ import annotations

import pytest
from inline_proxy import personal

from sidecar.proxy.redaction import Redactor
from sidecar.response_scan.placeholders import Placeholders, Span, kind_of, partial_start, spans
from sidecar.types import Finding, Label, LayerName


def findings_of(text: str, *hits: tuple[str, str]) -> list[Finding]:
    """Findings of these rules on these parts of a text."""
    return [
        Finding(rule, Label.PII_DETECTED, 0.3, LayerName.RULES, "p", text.index(part), text.index(part) + len(part))
        for rule, part in hits
    ]


def test_what_overlaps_is_one_place_of_the_widest_kind() -> None:
    """Whatever order it was found in; what only touches stays apart."""
    text = "mail ann@example.com or 030 1234567"
    hits = findings_of(
        text, ("PII-110", "030 1234567"), ("PII-760", "mail ann@example"), ("PII-100", "ann@example.com")
    )
    assert spans(text, hits) == [Span(0, 20, "SECRET"), Span(24, 35, "PHONE")]


def test_the_words_that_lead_up_to_a_number_stay() -> None:
    """The same number has the same name wherever it stands; of a secret or an address nothing stays."""
    text = "call me at +49 30 1234567, my password is hunter2"
    hits = findings_of(text, ("PII-113", "call me at +49 30 1234567"), ("PII-760", "my password is hunter2"))
    assert [text[start:end] for start, end, _ in spans(text, hits)] == ["+49 30 1234567", "my password is hunter2"]


def test_findings_without_a_place_are_no_places() -> None:
    """Nor are empty ones."""
    none = Finding("PII-100", Label.PII_DETECTED, 0.3, LayerName.RULES, "p")
    empty = Finding("PII-100", Label.PII_DETECTED, 0.3, LayerName.RULES, "p", 2, 2)
    assert spans("text", [none, empty]) == []


@pytest.mark.parametrize(
    ("rule", "kind"), [("PII-100", "EMAIL"), ("PII-113", "PHONE"), ("PII-740", "SECRET"), ("ACME-1", "PII")]
)
def test_names_tell_the_kind(rule: str, kind: str) -> None:
    """Rules of the operator's own have a kind, too."""
    assert kind_of(rule) == kind


def test_a_value_keeps_its_name() -> None:
    """Over texts, and counted by kind."""
    names = Placeholders()
    assert names.redact("a@b.de c@d.de 42", [Span(0, 6, "EMAIL"), Span(7, 13, "EMAIL"), Span(14, 16, "ID")]) == (
        "<EMAIL_1> <EMAIL_2> <ID_1>"
    )
    assert names.redact("To c@d.de", [Span(3, 9, "EMAIL")]) == "To <EMAIL_2>"
    assert len(names) == 3


def test_a_name_that_already_stands_in_the_request_is_not_given() -> None:
    """Else the user's own words would come back as somebody's address."""
    names = Placeholders("what does <EMAIL_1> mean?")
    assert names.redact("a@b.de", [Span(0, 6, "EMAIL")]) == "<EMAIL_2>"
    assert names.restore("<EMAIL_1> <EMAIL_2>") == "<EMAIL_1> a@b.de"


def test_values_come_back_escaped_where_the_text_is_json() -> None:
    """Names of others and what only looks like one stay."""
    names = Placeholders()
    names.redact('say "x"\n', [Span(0, 8, "SECRET")])
    assert names.restore('{"a": "<SECRET_1>"}', json=True) == '{"a": "say \\"x\\"\\n"}'
    assert names.restore("<SECRET_2> <secret_1> <SECRET_01>") == "<SECRET_2> <secret_1> <SECRET_01>"


@pytest.mark.parametrize(
    ("text", "begin"),
    [("a <", 2), ("a <EM", 2), ("a <EMAIL_1", 2), ("a <EMAIL_1>", None), ("1 < 2", None), ("x" * 90 + "<IP_", 90)],
)
def test_a_name_that_is_cut_off_is_seen(text: str, begin: int | None) -> None:
    """It may be complete with the next piece of a stream."""
    assert partial_start(text) == begin


@pytest.mark.parametrize("lead", ["lives at ", "address is: ", "Delivered to ", ""])
def test_the_words_before_an_address_stay(lead: str) -> None:
    """And so does the space after it."""
    text = f'"Jon" {lead}14 Baker Street '
    finding = Finding("PII-600", Label.PII_DETECTED, 0.2, LayerName.RULES, "prompt", 6, len(text))
    assert Placeholders().redact(text, spans(text, [finding])) == f'"Jon" {lead}<ADDRESS_1> '


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (
            '"Jon" lives at 14 Baker Street, Springfield 62704',
            '"Jon" lives at <ADDRESS_1>, Springfield 62704',
        ),
        ("My date of birth: 1984-03-12. Which year?", "My date of birth: <BIRTHDATE_1>. Which year?"),
        ("Note: I was born on March 12, 1984 in Kiel.", "Note: I was born on <BIRTHDATE_1> in Kiel."),
        ("Hier: Geburtsdatum 12.03.1987, ja.", "Hier: Geburtsdatum <BIRTHDATE_1>, ja."),
        ("The passport number is C01X00T47, right?", "The passport number is <ID_1>, right?"),
        ("My driver's license AB-1234567 is lost.", "My driver's license <ID_1> is lost."),
        ("You can reach me at 481 77 29 any time.", "You can reach me at <PHONE_1> any time."),
        ("Please (call me at 481 77 29 soon).", "Please (call me at <PHONE_1> soon)."),
        ("Anna (home, +41 44 668 18 00) knows.", "Anna (home, <PHONE_1>) knows."),
        ("Tel.: 030 2312 5042 (office), or (604) 555-2142.", "Tel.: <PHONE_1> (office), or <PHONE_2>."),
        ("Her laptop ab:cd:ef:12:34:56 is slow.", "Her laptop <MAC_1> is slow."),
        ("Route via abcd:ef01:4f8::2 please.", "Route via <IP_1> please."),
    ],
)
async def test_the_shipped_rules_take_the_value_and_no_word(text: str, redacted: str) -> None:
    """Of every kind whose rule reads words as well; and of a value that begins with letters nothing stays."""
    document: dict[str, object] = {"prompt": text}
    names = await Redactor(personal()).redact(document)  # type: ignore[arg-type]
    assert document == {"prompt": redacted}
    assert names.restore(redacted) == text
