"""Twin of sidecar/actions/atoms.py: one form for each value, however it is written."""

from __future__ import annotations

import time

import pytest

from sidecar.actions.atoms import AtomKind, links, text_atoms, url_host, url_key

IBAN = "DE89370400440532013000"


def keys(text: str, kind: AtomKind) -> list[str]:
    """The keys of one kind."""
    return [atom.key for atom in text_atoms(text) if atom.kind is kind]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("DE89 3704 0044 0532 0130 00", "iban: DE89370400440532013000.", AtomKind.ACCOUNT),
        ("FR76 4061 8802 5500 0407 3311 920 COMPTE", "FR7640618802550004073311920", AtomKind.ACCOUNT),
        ("LY83 0020 4800 0020 1001 2036 1 COMPTE", "LY83002048000020100120361", AtomKind.ACCOUNT),
        ("+49 (0)170 123 4567", "0170/1234567", AtomKind.PHONE),
        ("Anna@Berg.example", "<anna@berg.example>", AtomKind.EMAIL),
        ("https://www.Berg.example/a/", "http://berg.example/a", AtomKind.URL),
        ("https://www.berg.example/a", "see berg.example", AtomKind.HOST),
    ],
)
def test_spellings_of_a_value_are_equal(one: str, other: str, kind: AtomKind) -> None:
    """Blanks, punctuation, case, scheme."""
    assert set(keys(one, kind)) & set(keys(other, kind))


def test_a_file_is_no_host() -> None:
    """But a name like any other."""
    assert keys("bill.pdf and x.example", AtomKind.HOST) == ["x.example"]
    assert "bill.pdf" in keys("bill.pdf", AtomKind.IDENTIFIER)


def test_the_links_of_a_text() -> None:
    """Whole, each once, without the marks that follow them."""
    text = "![a](https://x.example/a(b)?d=c) and https://y.example/, https://y.example/."
    assert links(text) == ["https://x.example/a(b)?d=c", "https://y.example/"]


def test_a_broken_url_has_no_host() -> None:
    """Nothing is raised."""
    assert url_host("https://[::1/x") == ""
    assert url_key("https://A.example/B/") == "a.example/B"


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1 ",
        "a.",
        "1.",
        "@",
        "a-1 ",
        "/a",
        "http://",
        "DE12 ",
        "é",
        "\n",
        "a@",
        "- ",
        f"{IBAN} x 1234567 x ",
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Four times the text takes well under sixteen times as long."""

    def seconds(text: str) -> float:
        start = time.process_time()
        text_atoms(text)
        return time.process_time() - start

    short, long = min(seconds(unit * 4_000) for _ in range(3)), min(seconds(unit * 16_000) for _ in range(3))
    assert long < max(short, 0.01) * 12
