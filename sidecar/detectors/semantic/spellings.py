"""Other spellings of a window that the model scores beside its own, since it was trained on plain text.

At most one: without accents and look-alikes, in plain case, with spaces between words, and without repetitions. An
attack that is repeated reads as filler to the model, whatever it says.
"""

from __future__ import annotations

import re
from itertools import pairwise
from string import ascii_uppercase, digits, punctuation

import re2

from sidecar.normalization.folding import fold, strip_invisible

MIN_ASCII_SHARE = 0.9
"""Share of ASCII letters from which a text counts as Western once accents and look-alikes are replaced; a Russian text
has about 0.7, a Greek one 0.8."""
MIN_WESTERN_LETTERS = 24
"""Western letters in a text of another script from which they are also scored alone."""
TOLERATED = 3
"""Capitals, or punctuation between words, that any text may have."""
MAX_CAPITALS_SHARE = 0.12
"""Share of capitals among letters: a harmless row of the corpus has 0.03 in English and 0.07 in German (medians; one in
25 has more than this), Words Like These 0.24."""
REPEATED_WORDS, MIN_WORDS = 4, 12
"""Words in a row that occurred before are a repetition; words of a text that may have any."""
MIN_REPEATED_SHARE = 0.3
"""Share of repeated words from which the text is also scored without them."""
MIN_REPEATED_PAIRS = 0.2
"""Share of repeated pairs of words that such a text has at least: four repeated words are three repeated pairs."""
_NO_LETTER, _NO_WORD = re.compile(r"[^\w\s]|[\d_]"), re.compile(r"[\W\d_]+")
_CAPITALS, _ASCII_SIGNS = ascii_uppercase.encode(), (digits + punctuation).encode()
_SEPARATORS = b"_-./|+~*=:;,\n"
_TO_SPACES = str.maketrans(dict.fromkeys(_SEPARATORS.decode(), " "))
_WORD = re2.compile(r"[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*\p{Latin}[\p{Latin}\p{Greek}\p{Cyrillic}\pM]*")
_FOREIGN = re2.compile(r"[^\x00-\x7f]+")


def alternative_spellings(text: str) -> list[str]:
    """Undisguised spellings of a text, beside its visible form: at most one."""
    visible = strip_invisible(text)
    alternative = without_repetitions(_plain_case_and_spaces(_ascii_form(visible)))
    return [alternative] if alternative != visible else []


def _ascii_form(text: str) -> str:
    """A Western text without accents and look-alikes, or the Western part of another, if it has one."""
    if text.isascii():
        return text
    plain = fold(text)
    return plain if _is_western(plain) else _western_part(text) or text


def _plain_case_and_spaces(text: str) -> str:
    """Lower case if there are unusually many capitals, and spaces if other characters separate the words."""
    if _capitals(text) > max(TOLERATED, MAX_CAPITALS_SHARE * sum(map(str.isalpha, text))):
        text = text.lower()
    spaces = text.count(" ")
    has_other_spaces = spaces + _ascii_count(text, _SEPARATORS) > max(TOLERATED, 3 * spaces)
    return text.translate(_TO_SPACES) if has_other_spaces else text


def _capitals(text: str) -> int:
    return _ascii_count(text, _CAPITALS) if text.isascii() else sum(map(str.isupper, text))


def _ascii_count(text: str, characters: bytes) -> int:
    """How many of these ASCII characters there are."""
    data = text.encode()
    return len(data) - len(data.translate(None, characters))


def _western_part(text: str) -> str:
    """The ASCII part of a text in another script, once Latin words are plain; empty if that is a name or two."""
    plain = _WORD.sub(lambda word: fold(word[0]), text)
    part = _FOREIGN.sub(" ", plain)
    return part if sum(map(str.isalpha, part)) >= MIN_WESTERN_LETTERS else ""


def _is_western(text: str) -> bool:
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    return sum(map(str.isascii, letters)) >= MIN_ASCII_SHARE * len(letters)


def without_repetitions(text: str) -> str:
    """The text without words that repeat `REPEATED_WORDS` earlier ones, if these are many; numbers do not count."""
    keys = _letters_of_words(text)
    if len(keys) < MIN_WORDS or len(set(pairwise(keys))) > (1 - MIN_REPEATED_PAIRS) * len(keys):
        return text
    words = [word for word in text.split() if not _NO_WORD.fullmatch(word)]
    seen, kept, repeated_until = set[tuple[str, ...]](), [], 0
    for position, word in enumerate(words):
        run = tuple(keys[position : position + REPEATED_WORDS])
        if run in seen and len(run) == REPEATED_WORDS:
            repeated_until = position + REPEATED_WORDS
        seen.add(run)
        if position >= repeated_until:
            kept.append(word)
    return " ".join(kept) if len(kept) <= (1 - MIN_REPEATED_SHARE) * len(words) else text


def _letters_of_words(text: str) -> list[str]:
    """The letters of each word that has any, in lower case."""
    lower = text.lower()
    if text.isascii():
        return lower.encode().translate(None, _ASCII_SIGNS).decode().split()
    return _NO_LETTER.sub("", lower).split()
