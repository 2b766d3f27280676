"""Patterns of the form of a disguise, for disguises whose form is seldom seen in ordinary text.

They are for what no pattern of words can find: the text is not undone, or is undone for the model alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """What the pattern finds, and ordinary texts of a similar form."""

    title: str
    pattern: str
    no_match: tuple[str, ...]


_BETWEEN_LETTERS = Form(
    "Ten letters in a row, each apart from the next by the same few signs",
    r"(?:\b[a-z][^\w\s]{1,12}){10}",
    ("The options are a) tea, b) coffee, c) juice.", "He was born in Washington, D.C., U.S.A., on 3 May."),
)
_LETTERS_IN_QUOTES = Form(
    "A list of ten single letters in quotation marks",
    r"""(?:["'][a-z]["'](?:,| /)\s?){10}""",
    ('The grades are "A", "B", "C", "D" and "F".', "keys = ['w', 'a', 's', 'd']"),
)
FORMS: Mapping[str, Form] = {
    "runes": Form(
        "English in runes",
        r"(?:[\x{16A0}-\x{16F0}]+[^\w\n]{1,3}){4}",
        ("The first six runes are called futhark: ᚠ ᚢ ᚦ.", "A comb with the inscription ᚺᚨᚱᛃᚨ."),
    ),
    "flag_letters": Form(
        "Regional indicators apart by invisible blanks",
        r"(?:[\x{1F1E6}-\x{1F1FF}]\x{200B}\W?){6}",
        ("Teams: \U0001f1e9\U0001f1ea \U0001f1eb\U0001f1f7 \U0001f1ee\U0001f1f9 \U0001f1ef\U0001f1f5",),
    ),
    "negative_squares": Form(
        "Words of letters in squares",
        r"(?:[\x{1F170}-\x{1F189}]{3,}\W{1,3}){2}",
        ("Blood group \U0001f170, parking \U0001f17f at the back.",),
    ),
    "piled_marks": Form(
        "Words under piles of combining marks",
        r"(?:[a-z][\x{300}-\x{36F}]{3,}){5}",
        ("Das Cafe\u0301 am Fluss hat e\u0301clairs.",),
    ),
    "rail_fence": Form(
        "A text in a rail fence",
        r"\brail fence\b.{0,40}\brails?\b",
        ("We bought a split rail fence for the garden.",),
    ),
    "acrostic": Form(
        "Asks to read the first letters of words",
        r"\bfirst letters? of (?:each|every|the) words?\b",
        ("Write the first letter of the alphabet in capitals.",),
    ),
    "columns": Form(
        "Asks to read columns of letters downwards",
        r"\bread (?:each|every|the) columns? downwards?\b(?:[^\n]*\n(?:\S ){3}){2}",
        ("Read each column downwards and add up the numbers.",),
    ),
    "bullets": _BETWEEN_LETTERS,
    "plus_signs": _BETWEEN_LETTERS,
    "hearts": _BETWEEN_LETTERS,
    "claps_between_letters": _BETWEEN_LETTERS,
    "varied_signs": _BETWEEN_LETTERS,
    "json_letters": _LETTERS_IN_QUOTES,
    "python_letters": _LETTERS_IN_QUOTES,
    "quoted_letters": _LETTERS_IN_QUOTES,
}
"""The form of each of these disguises, by its name."""
