"""What a part of a pattern stands for: a few strings exactly, or what it cannot do without.

The strings are written with signs for what they leave open (`DIGIT`, `BETWEEN`, `WIDE`). A part also knows how long a
stretch it may meet, counted in letters and digits of ASCII, since what is between words may be as long as anybody
likes. It errs on the side of caution: what is not understood stands for anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf
from string import punctuation

import re2

from sidecar.policy import options

Strings = frozenset[str]
Clauses = tuple[Strings, ...]

DIGIT, BETWEEN, WIDE = "\ufdd0", "\ufdd1", "\ufdd2"
"""Signs that no text holds: any ASCII digit; one or more characters that are no letters or digits of ASCII (or the
boundary of a word, beside which there is such a one or the end of the text); any character beyond ASCII."""
EXACT = 48
"""Strings that a stretch of a pattern may stand for; more, and it is cut in two."""
CLASS, SIGNS = 8, 1_100
"""Characters of a class that are taken one by one; of a class of rare signs beyond ASCII."""
LONG_WORD = 64
"""Letters and digits that a word is taken to have at most; longer ones are seen to by who cuts texts."""
ALSO_LETTERS = {"\u212a": "k", "\u017f": "s"}
"""The two characters beyond ASCII that meet an ASCII letter where case is ignored."""
EMPTY: Strings = frozenset({""})
NAMED = re2.compile(r"\[:\^?\w+:\]|\\[pP](?:\{[^}]*\}|.)|\\[wWdDsSC]")
_OF_ASCII = re2.compile(r"\[:\w+:\]|\\[wds]")
CODE = re2.compile(r"\\x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))")
_RANGES = re2.compile(r"(?s)(.)-(.)|(.)")
_ENDS_WORDS = frozenset(" \t\n\f\r" + punctuation) - {"_", "-"}
_ASCII = "".join(map(chr, range(128)))
_RARE = frozenset(
    chr(code)
    for first, last in (
        (0x300, 0x370),  # marks that combine
        (0x2000, 0x2070),  # spaces, dashes, quotation marks, what is not seen
        (0x2460, 0x2500),  # letters in circles
        (0xFE00, 0xFE10),  # variation selectors
        (0xFEFF, 0xFF5F),  # what is not seen, wide letters
        (0x1D400, 0x1D800),  # letters for mathematics
        (0x1F100, 0x1F200),  # letters in frames
        (0xE0000, 0xE0200),  # tags, more selectors
    )
    for code in range(first, last)
)
"""Characters that are not those of a language: a class of them is worth being looked for one by one."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a part of a pattern stands for exactly, if that is few strings, or what it needs otherwise."""

    exact: Strings | None
    clauses: Clauses = ()
    length: float = 0
    """Letters and digits of ASCII in what it meets, at most."""
    of_word: bool = False
    """Whether it is one character that is no space and no punctuation of ASCII but `_` and `-`."""


def _letters(string: str) -> int:
    return sum(c == DIGIT or c in ALSO_LETTERS or (c.isascii() and c.isalnum()) for c in string)


def of_strings(strings: Strings, *, of_word: bool = False) -> Part:
    """One of these strings."""
    return Part(strings, (), max(map(_letters, strings)), of_word)


def joined(strings: Sequence[Strings]) -> Strings:
    """All strings of one after the other; what is between words is so only once."""
    return frozenset(
        "".join(c for at, c in enumerate(text) if c != BETWEEN or text[at - 1 : at] != BETWEEN)
        for text in map("".join, product(*strings))
    )


@lru_cache(maxsize=4096)
def of_class(inner: str) -> Part:
    """A class of characters: few as themselves, the others by their kind."""
    plain = {c.lower() for c in re2.compile(f"[{inner}]", options()).findall(_ASCII)}
    beyond = _beyond(inner)
    of_word = plain.isdisjoint(_ENDS_WORDS)
    spaced = len(plain) > 1 and any(map(str.isspace, plain))
    if beyond is not None and not spaced and (len(plain | beyond) <= CLASS or (not plain and beyond <= _RARE)):
        return of_strings(frozenset(plain | beyond), of_word=of_word)
    if any(c.isalpha() for c in plain):
        return Part(None, (), 1, of_word)
    if not plain:
        return of_strings(frozenset({WIDE}), of_word=True)
    kinds = {DIGIT if c.isdigit() else BETWEEN for c in plain} | (set() if beyond == frozenset() else {BETWEEN})
    return of_strings(frozenset(kinds), of_word=of_word)


def _beyond(inner: str) -> Strings | None:
    """The characters beyond ASCII of a class; None where that is not for sure."""
    shown = CODE.sub(lambda found: chr(int(found.group(1) or found.group(2), 16)), _OF_ASCII.sub("", inner))
    if inner.startswith("^") or NAMED.search(shown):
        return None
    found = set[str]()
    for first, last, one in _RANGES.findall(shown):
        if not one and first.isascii() != last.isascii():
            return None
        found |= {one} if one else set(map(chr, range(ord(first), ord(last) + 1)))
        if len(found) > SIGNS:
            return None
    return frozenset(c for c in found if not c.isascii())


def times(part: Part, least: int, most: float) -> Part:
    """The part again and again."""
    if part.exact is not None and part.exact <= {"", BETWEEN}:
        return part if least else Part(part.exact | EMPTY)
    length = part.length * most if part.length and most < inf else LONG_WORD if part.of_word else inf
    length = length if part.length else 0
    if part.exact is not None and most * len(part.exact) ** most <= EXACT:
        powers = (joined([part.exact] * often) for often in range(least, int(most) + 1))
        return Part(frozenset().union(*powers), (), length)
    if not least:
        return Part(None, (), length)
    if part.exact is not None:
        while least > 1 and len(part.exact) ** least > EXACT:
            least -= 1
        return Part(None, (joined([part.exact] * least),), length)
    return Part(None, part.clauses, length)
