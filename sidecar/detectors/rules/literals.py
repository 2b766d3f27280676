"""Required literals of a regex, used as a prefilter, and the two text forms in which they are searched.

A text without them needs no automaton. `required_literals(pattern)` returns clauses. Literals of bytes are searched in
the `normalized` text, in which words are letters a-z and digits are 0, separated by single spaces whatever stood
between them: so a literal may consist of several words, and begin and end at word boundaries. Literals of `str`, which
contain punctuation or letters of other scripts, are searched in the case-folded text; `NON_ASCII` stands for any
non-ASCII character. A pattern without clauses is always searched.

Invariant: every text that the pattern matches contains at least one literal of each clause, so the prefilter never
hides a match.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sidecar.detectors.rules.fragments import ASCII_CASE_VARIANTS, DIGIT, NON_ASCII, SEPARATOR, Strings
from sidecar.detectors.rules.parser import clear_groups, parse
from sidecar.policy import prepared

Literal = bytes | str
MAX_EXTRA_CLAUSES, MIN_WEIGHT = 4, 2
"""Clauses of a pattern besides the best, and the minimum weight of each of their strings: more or weaker clauses cost
more than the texts they exclude."""
MIN_LETTERS = 3
"""Letters and digits from which a string is searched in the normal form."""
COMMON_WORDS = frozenset(
    b"a all an and any are as at be by can do for from have i in is it not of on or that the this to with you".split()
)
"""English words that are in most texts."""
RARE_SIGNS = "@:=[<{$%&*+#|"
_NORMAL_TABLE = bytes(48 if chr(code).isdigit() else code if chr(code).isalnum() else 32 for code in range(128)).lower()
_NORMAL_TABLE += b" " * 128
_MARK_TABLE = str.maketrans({DIGIT: "0", SEPARATOR: " ", NON_ASCII: " "})
_CASE_VARIANTS = tuple((sign.encode(), letter.encode()) for sign, letter in ASCII_CASE_VARIANTS.items())


class RequiredLiterals(NamedTuple):
    """Clauses, most selective first, and the maximum ASCII letters and digits in the pattern's match."""

    clauses: tuple[frozenset[Literal], ...]
    max_letters: float


@lru_cache(maxsize=4096)  # a reload reads the same patterns again, but for a few
def required_literals(pattern: str) -> RequiredLiterals:
    """The required literals of an RE2 pattern; of a shipped one those that were found when it was last changed."""
    analysis = prepared.analysis_of(pattern)
    return analyse(pattern) if analysis is None else RequiredLiterals(analysis.clauses, analysis.max_letters)


def analyse(pattern: str) -> RequiredLiterals:
    """The required literals, found now."""
    fragment = parse(pattern, _is_selective, _cost)
    clauses = [clause for rank, clause in enumerate(fragment.clauses) if not rank or -_cost(clause)[0] >= MIN_WEIGHT][
        :MAX_EXTRA_CLAUSES
    ]
    return RequiredLiterals(tuple(frozenset(map(_literal, clause)) for clause in clauses), fragment.max_letters)


def clear_caches() -> None:
    """Drop the caches filled while patterns are read: 50,000 strings and the groups of the shipped ones."""
    _literal.cache_clear()
    _is_selective.cache_clear()
    _weight.cache_clear()
    clear_groups()
    prepared.forget()


def normalized(data: bytes) -> bytes:
    """The normal form in which byte literals are searched, with a space at both ends."""
    if not data.isascii():
        for variant, letter in _CASE_VARIANTS:
            data = data.replace(variant, letter)
    return b" ".join([b"", *data.translate(_NORMAL_TABLE).split(), b""]) or b" "


def has_case_variants(text: str) -> bool:
    """Whether it has a non-ASCII letter that both is a letter of a word and bounds words."""
    return not text.isascii() and any(letter in text for letter in ASCII_CASE_VARIANTS)


def _normalized_string(string: str) -> bytes:
    """The normal form of a string of a pattern; spaces at the ends only where the string has a separator."""
    encoded = string.translate(_MARK_TABLE).encode()
    normal_form = normalized(encoded)
    return normal_form[
        encoded[:1].translate(_NORMAL_TABLE) != b" " : len(normal_form)
        - (encoded[-1:].translate(_NORMAL_TABLE) != b" ")
    ]


@lru_cache(maxsize=1 << 16)
def _literal(string: str) -> Literal:
    """The literal by which a string of a pattern is searched."""
    normal_form = _normalized_string(string)
    letters = len(normal_form.strip())
    pieces = string.replace(DIGIT, SEPARATOR).replace(NON_ASCII, SEPARATOR).split(SEPARATOR)
    piece = max((piece.casefold() for piece in pieces), key=lambda piece: len(piece.encode()))
    if _is_sign(piece) and letters < (2 if piece.isascii() else min(MIN_LETTERS, len(piece.encode()))):
        return piece
    return normal_form if letters > 1 or NON_ASCII not in string else NON_ASCII


def _is_sign(piece: str) -> bool:
    """Single letters and common punctuation are in every text; a single Chinese character is a word."""
    return len(piece.encode()) > 1 or (bool(piece) and piece in RARE_SIGNS)


@lru_cache(maxsize=1 << 16)
def _is_selective(string: str) -> bool:
    literal = _literal(string)
    return len(literal.strip()) > 1 if isinstance(literal, bytes) else _is_sign(literal)


def _cost(clause: Strings) -> tuple[int, int]:
    return len(clause).bit_length() - min(map(_weight, clause)), len(clause)


@lru_cache(maxsize=1 << 16)
def _weight(string: str) -> int:
    """The selectivity of a string; higher if it must begin and end at a word boundary."""
    literal = _literal(string)
    if isinstance(literal, str):
        return 0 if literal == NON_ASCII else 4 + 2 * len(literal.encode())
    return 2 if literal.strip() in COMMON_WORDS else 2 * len(literal)
