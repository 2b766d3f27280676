"""Regex fragments: the exact strings a part of a pattern matches if these are few, otherwise its required literals.

Unspecified characters in the strings are placeholders (`DIGIT`, `SEPARATOR`, `NON_ASCII`). A fragment also knows the
maximum length of its match in ASCII letters and digits, since the distance between words is not bounded.

Invariant: a fragment never promises more than its pattern guarantees; whatever is not understood matches anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf
from string import punctuation

import re2

from sidecar.policy import re2_options

Strings = frozenset[str]
Clauses = tuple[Strings, ...]

DIGIT, SEPARATOR, NON_ASCII = "\ufdd0", "\ufdd1", "\ufdd2"
"""Placeholders that no text contains: any ASCII digit; one or more characters that are not ASCII letters or digits (or
a word boundary, next to which there is such a character or the end of the text); any non-ASCII character."""
MAX_EXACT = 48
"""Exact strings per fragment; a longer sequence is cut in two."""
MAX_CLASS, MAX_RARE_CLASS = 8, 1_100
"""Characters of a class that are listed one by one; the same for a class of rare non-ASCII characters."""
MAX_WORD = 64
"""Assumed maximum length of a word in letters and digits; the chunker handles longer ones."""
ASCII_CASE_VARIANTS = {"\u212a": "k", "\u017f": "s"}
"""The two non-ASCII characters that match an ASCII letter when case is ignored."""
EMPTY: Strings = frozenset({""})
NAMED_CLASS = re.compile(r"\[:\^?\w+:\]|\\[pP](?:\{[^}]*\}|.)|\\[wWdDsSC]", re.ASCII)
_ASCII_CLASS = re.compile(r"\[:\w+:\]|\\[wds]", re.ASCII)
CODE_POINT = re.compile(r"\\x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))")
_RANGES = re.compile(r"(?s)(.)-(.)|(.)")
_TWO_SEPARATORS = SEPARATOR * 2
_WORD_BOUNDARIES = frozenset(" \t\n\f\r" + punctuation) - {"_", "-"}
_ASCII = "".join(map(chr, range(128)))
_RARE_CHARACTERS = frozenset(
    chr(code)
    for first, last in (
        (0x300, 0x370),  # combining marks
        (0x2000, 0x2070),  # spaces, dashes, quotation marks, invisible characters
        (0x2460, 0x2500),  # letters in circles
        (0xFE00, 0xFE10),  # variation selectors
        (0xFEFF, 0xFF5F),  # invisible characters, wide letters
        (0x1D400, 0x1D800),  # letters for mathematics
        (0x1F100, 0x1F200),  # letters in frames
        (0xE0000, 0xE0200),  # tags, more selectors
    )
    for code in range(first, last)
)
"""Characters that belong to no language: a class of them is worth searching character by character."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """The exact strings of a part of a pattern if they are few, otherwise its required clauses."""

    exact: Strings | None
    clauses: Clauses = ()
    max_letters: float = 0
    """Maximum ASCII letters and digits in a match."""
    is_word_character: bool = False
    """Whether it is one character that is neither white space nor ASCII punctuation other than `_` and `-`."""


def _letters(string: str) -> int:
    if string.isascii() and string.isalnum():
        return len(string)
    return sum(c == DIGIT or c in ASCII_CASE_VARIANTS or (c.isascii() and c.isalnum()) for c in string)


def from_strings(strings: Strings, *, is_word_character: bool = False) -> Fragment:
    """A fragment that matches one of these strings."""
    return Fragment(strings, (), max(map(_letters, strings)), is_word_character)


def concatenated(strings: Sequence[Strings]) -> Strings:
    """All concatenations of one string of each set; adjacent separators collapse into one."""
    return frozenset(map(_collapsed, map("".join, product(*strings))))


def _collapsed(text: str) -> str:
    while _TWO_SEPARATORS in text:
        text = text.replace(_TWO_SEPARATORS, SEPARATOR)
    return text


@lru_cache(maxsize=4096)
def from_class(inner: str) -> Fragment:
    """A character class: listed if small, otherwise by kind."""
    ascii_characters = {c.lower() for c in re2.compile(f"[{inner}]", re2_options()).findall(_ASCII)}
    non_ascii = _non_ascii(inner)
    is_word_character = ascii_characters.isdisjoint(_WORD_BOUNDARIES)
    has_spaces = len(ascii_characters) > 1 and any(map(str.isspace, ascii_characters))
    if (
        non_ascii is not None
        and not has_spaces
        and (len(ascii_characters | non_ascii) <= MAX_CLASS or (not ascii_characters and non_ascii <= _RARE_CHARACTERS))
    ):
        return from_strings(frozenset(ascii_characters | non_ascii), is_word_character=is_word_character)
    if any(c.isalpha() for c in ascii_characters):
        return Fragment(None, (), 1, is_word_character)
    if not ascii_characters:
        return from_strings(frozenset({NON_ASCII}), is_word_character=True)
    kinds = {DIGIT if c.isdigit() else SEPARATOR for c in ascii_characters} | (
        set() if non_ascii == frozenset() else {SEPARATOR}
    )
    return from_strings(frozenset(kinds), is_word_character=is_word_character)


def _non_ascii(inner: str) -> Strings | None:
    """The non-ASCII characters of a class; None if not certain."""
    expanded = CODE_POINT.sub(lambda match: chr(int(match.group(1) or match.group(2), 16)), _ASCII_CLASS.sub("", inner))
    if inner.startswith("^") or NAMED_CLASS.search(expanded):
        return None
    characters = set[str]()
    for first, last, single in _RANGES.findall(expanded):
        if not single and first.isascii() != last.isascii():
            return None
        characters |= {single} if single else set(map(chr, range(ord(first), ord(last) + 1)))
        if len(characters) > MAX_RARE_CLASS:
            return None
    return frozenset(c for c in characters if not c.isascii())


def repeated(fragment: Fragment, minimum: int, maximum: float) -> Fragment:
    """The fragment repeated between `minimum` and `maximum` times."""
    if fragment.exact is not None and fragment.exact <= {"", SEPARATOR}:
        return fragment if minimum else Fragment(fragment.exact | EMPTY)
    max_letters = (
        fragment.max_letters * maximum
        if fragment.max_letters and maximum < inf
        else MAX_WORD
        if fragment.is_word_character
        else inf
    )
    max_letters = max_letters if fragment.max_letters else 0
    if fragment.exact is not None and maximum * len(fragment.exact) ** maximum <= MAX_EXACT:
        powers = (concatenated([fragment.exact] * count) for count in range(minimum, int(maximum) + 1))
        return Fragment(frozenset().union(*powers), (), max_letters)
    if not minimum:
        return Fragment(None, (), max_letters)
    if fragment.exact is not None:
        while minimum > 1 and len(fragment.exact) ** minimum > MAX_EXACT:
            minimum -= 1
        return Fragment(None, (concatenated([fragment.exact] * minimum),), max_letters)
    return Fragment(None, fragment.clauses, max_letters)
