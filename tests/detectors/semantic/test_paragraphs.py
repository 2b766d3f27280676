"""Twin of sidecar/detectors/semantic/paragraphs.py."""

from __future__ import annotations

import pytest

from sidecar.detectors.semantic.paragraphs import MAX_LENGTH, parts, parts_among

FIRST, SECOND, THIRD = (
    "The first paragraph of three in this text.",
    "A second one, which has\ntwo lines of text.",
    "The last one ends the text here.",
)
LONG = "More words. " * 120
TEXT = f"{FIRST}\n\n{SECOND}\n \n\n{THIRD}\n\n{LONG}"


def found(text: str, start: int, end: int, *, lines: bool = False) -> list[str]:
    """The parts as texts."""
    return [text[first:last] for first, last in parts(text, start, end, lines=lines)]


def test_paragraphs_that_overlap_are_found_whole() -> None:
    """All of them, however little of each lies in the span."""
    assert found(TEXT, 0, TEXT.index(LONG) - 2) == [FIRST, SECOND, THIRD]
    assert found(TEXT, len(FIRST) + 10, len(FIRST) + 12) == [SECOND]
    assert found(TEXT, len(FIRST) - 1, len(FIRST) + 4) == [FIRST, SECOND]


def test_lines_are_parts_where_they_are_asked_for() -> None:
    """Behind the paragraphs, each once, without the short ones."""
    line = "12:03 WARN the disk of node 7 is nearly full"
    text = f"{FIRST}\n\n{line}\nok\n  {line} again\n\n{LONG}"
    assert found(text, 0, 100) == [FIRST, f"{line}\nok\n  {line} again"]
    assert found(text, 0, 100, lines=True) == [FIRST, f"{line}\nok\n  {line} again", line, f"{line} again"]


@pytest.mark.parametrize(
    "text",
    [
        f"<div><p>Hello.</p><!-- {FIRST} --><p class='x'>Bye.</p></div> {LONG}",
        f"<ul><li>One.</li><li>{FIRST}</li></ul> {LONG}",
        '{"id": 7, "note": "' + FIRST + '", "more": "' + LONG + '"}',
        '{"text": "One.\\n' + FIRST + "\\n" + LONG + '"}',
    ],
)
def test_elements_comments_and_fields_are_lines(text: str) -> None:
    """Of pages and results that have no line breaks."""
    assert FIRST in found(text, 0, len(text), lines=True)


def test_of_what_was_decoded_only_whole_parts_count() -> None:
    """Those that overlap the window, neither a word nor more than a window."""
    spans = [(0, 5), (10, 60), (70, 70 + MAX_LENGTH + 1), (2_000, 2_050)]
    assert list(parts_among(spans, 0, 100)) == [(10, 60)]
    assert list(parts_among(spans, 2_049, 3_000)) == [(2_000, 2_050)]
    assert list(parts_among(spans, 60, 70)) == []


def test_short_lines_and_endless_paragraphs_are_left_to_the_windows() -> None:
    """No short line, nothing longer than a window."""
    assert found(f"{FIRST}\n\n{SECOND}", 0, 20, lines=True) == [FIRST]
    assert found(f"ok\n\n{FIRST}\n\n{LONG}", 0, 40) == [FIRST]
    assert found("a " * MAX_LENGTH + "\n\n" + "b " * MAX_LENGTH, 0, 4 * MAX_LENGTH) == []


def test_a_paragraph_cut_by_the_bound_is_not_taken_for_a_whole_one() -> None:
    """Far from the span nothing is searched, and no piece counts as a paragraph."""
    text = "x " * 3_000 + f"\n\n{FIRST}\n\n" + "y " * 3_000
    at = text.index(FIRST)
    assert found(text, at, at + 5) == [FIRST]
    assert found(text, 100, 200) == []
