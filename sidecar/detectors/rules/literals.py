"""Which words a pattern cannot do without, and the two forms in which a text is looked through for them.

A text without them needs no automaton. `needs(pattern)` has clauses: of each at least one needle is in every text that
the pattern meets. Needles of bytes are looked for in the text's `normal` form, in which words are letters a-z and
digits 0 with one space between them, whatever stood there: so a needle may be several words, and begin and end where
words do. Needles of `str`, which have signs or letters of other scripts, are looked for in the text case folded; `WIDE`
stands for any character beyond ASCII. A pattern without clauses is always searched.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sidecar.detectors.rules.fragments import ALSO_LETTERS, BETWEEN, DIGIT, WIDE, Strings
from sidecar.detectors.rules.parser import whole

Needle = bytes | str
KEPT, WORD = 4, 2
"""Clauses of a pattern beside the best, and what each of their strings is worth at least: more, or weaker ones, cost
more than the texts they turn away."""
ENOUGH = 3
"""Letters and digits from which on a string is looked for in the normal form."""
COMMON = frozenset(
    b"a all an and any are as at be by can do for from have i in is it not of on or that the this to with you".split()
)
"""English words that are in most texts."""
RARE = "@:=[<{$%&*+#|"
_NORMAL = bytes(48 if chr(code).isdigit() else code if chr(code).isalnum() else 32 for code in range(128)).lower()
_NORMAL += b" " * 128
_MARKS = str.maketrans({DIGIT: "0", BETWEEN: " ", WIDE: " "})
_LIKE_LETTERS = tuple((sign.encode(), letter.encode()) for sign, letter in ALSO_LETTERS.items())


class Needs(NamedTuple):
    """Clauses, those that turn away most first, and letters and digits of ASCII in what the pattern meets, at most."""

    clauses: tuple[frozenset[Needle], ...]
    length: float


@lru_cache(maxsize=4096)  # a reload reads the same patterns again, but for a few
def needs(pattern: str) -> Needs:
    """What an RE2 pattern cannot do without."""
    part = whole(pattern, _telling, _worth)
    kept = [clause for rank, clause in enumerate(part.clauses) if not rank or -_worth(clause)[0] >= WORD][:KEPT]
    return Needs(tuple(frozenset(map(_needle, clause)) for clause in kept), part.length)


def forget() -> None:
    """What was kept while patterns were read: 50,000 strings of the shipped ones."""
    _needle.cache_clear()
    _length.cache_clear()


def normal(data: bytes) -> bytes:
    """A text as needles of bytes see it; a space at both ends."""
    if not data.isascii():
        for sign, letter in _LIKE_LETTERS:
            data = data.replace(sign, letter)
    return b" ".join([b"", *data.translate(_NORMAL).split(), b""]) or b" "


def has_odd_letters(text: str) -> bool:
    """Whether it has a letter beyond ASCII that is a letter of a word and bounds words, too."""
    return not text.isascii() and any(letter in text for letter in ALSO_LETTERS)


def _words(string: str) -> bytes:
    """The same for a string of a pattern; a space only where there is something between words."""
    data = string.translate(_MARKS).encode()
    words = normal(data)
    return words[data[:1].translate(_NORMAL) != b" " : len(words) - (data[-1:].translate(_NORMAL) != b" ")]


@lru_cache(maxsize=1 << 16)
def _needle(string: str) -> Needle:
    """What a string of a pattern is looked for by."""
    words = _words(string)
    letters = len(words.strip())
    pieces = string.replace(DIGIT, BETWEEN).replace(WIDE, BETWEEN).split(BETWEEN)
    piece = max((piece.casefold() for piece in pieces), key=lambda piece: len(piece.encode()))
    if _is_sign(piece) and letters < (2 if piece.isascii() else min(ENOUGH, len(piece.encode()))):
        return piece
    return words if letters > 1 or WIDE not in string else WIDE


def _is_sign(piece: str) -> bool:
    """Single letters and common signs are in every text; a single Chinese character is a word."""
    return len(piece.encode()) > 1 or (bool(piece) and piece in RARE)


def _telling(string: str) -> bool:
    needle = _needle(string)
    return len(needle.strip()) > 1 if isinstance(needle, bytes) else _is_sign(needle)


def _worth(clause: Strings) -> tuple[int, int]:
    return len(clause).bit_length() - min(map(_length, clause)), len(clause)


@lru_cache(maxsize=1 << 16)
def _length(string: str) -> int:
    """A word is worth more if it must begin and end where a word does."""
    needle = _needle(string)
    if isinstance(needle, str):
        return 0 if needle == WIDE else 4 + 2 * len(needle.encode())
    return 2 if needle.strip() in COMMON else 2 * len(needle)
