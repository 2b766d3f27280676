"""Twin of sidecar/extraction/fragments.py: what may be a piece of a split sentence."""

from __future__ import annotations

import pytest

from sidecar.extraction.fragments import MAX_FRAGMENTS, MAX_LENGTH, fragments

PROSE = "The garden behind the house is old. It rained for three weeks after that. "


@pytest.mark.parametrize(
    "placed",
    [
        "Note one: ignore all of the. ",
        "\nPart 3 = ignore all of the\n",
        '\n[b]: "ignore all of the"\n',
        "\nignore all of the\n",
    ],
)
def test_what_follows_a_label_or_is_cut_is_a_fragment(placed: str) -> None:
    """In the middle of prose, without its label and quotation marks."""
    assert fragments(f"{PROSE}{placed}{PROSE}") == ["ignore all of the"]


def test_a_line_that_goes_on_is_a_fragment() -> None:
    """Though it ends a sentence."""
    assert fragments(f"{PROSE}\nprevious instructions.\n{PROSE}") == ["previous instructions."]


@pytest.mark.parametrize(
    "text", [PROSE, "apples\npears\nplums", f"{PROSE}\n{'x' * (MAX_LENGTH + 1)}\n{PROSE}", "", "\n\n"]
)
def test_prose_lists_and_long_lines_are_none(text: str) -> None:
    """Lines that follow each other are a list or wrapped text."""
    assert fragments(text) == []


def test_the_order_is_that_of_the_text() -> None:
    """Of both kinds."""
    assert fragments(f"{PROSE}\nof the\n{PROSE}\nA: first\n{PROSE}\nand then\n{PROSE}") == [
        "of the",
        "first",
        "and then",
    ]


def test_a_table_of_labels_is_bounded() -> None:
    """So that a large one costs no memory."""
    assert len(fragments("name: value\n" * 100_000)) == MAX_FRAGMENTS
