"""Tells prose that a model can judge from identifiers, numbers and encoded data.

A single word, an enum value, a type, an id, a path, a URL, a version or a date is an attack only in context, and scores
of such texts are chance. So the model skips a text in which no two words are adjacent, unless words joined by other
characters or LikeThis form a sentence: then it is scored like any other text.
"""

from __future__ import annotations

import re

import re2

from sidecar.normalization.folding import fold, strip_invisible

MIN_JOINED_WORDS = 5
"""Words joined in one part of an identifier (`ignore_all_previous_...`) from which it counts as a sentence."""
MIN_TOTAL_WORDS = 9
"""The same over all parts of a path or a dotted name, and for lines of one word each."""
MIN_ENCODED = 24
"""Characters without white space from which a run may be encoded data."""
MIN_CHANGE_SHARE, MIN_DIGIT_SHARE = 0.36, 0.08
"""Changes between lower case, upper case, digits and punctuation in encoded data, and its digits, as shares of its
length: base64 has 0.6 and 0.16, LikeThis 0.3 and none."""
_PUNCTUATION = r"""["'`´‘’“”„«»()\[\]{}<>.,;:!?…*_~#|\-–—¿¡。、，！？「」『』（）]*"""
_WORD = rf"{_PUNCTUATION}[\pL\pM]+(?:['’\-][\pL\pM]+)*{_PUNCTUATION}"
_SPACE = r"[ \t\x{a0}\x{3000}]"
_ADJACENT_WORDS = re2.compile(rf"(?m)(?:^|{_SPACE}){_WORD}{_SPACE}+{_WORD}(?:\s|$)")
_PLAIN_WORDS = re.compile(r"[ \t][^\W\d_]{2,}[ \t][^\W\d_]{2,}[ \t]")
"""Two adjacent words without punctuation and longer than a character: in nearly any prose, and found at once."""
_SPELLED = re2.compile(rf"(?:(?:^|\s)[A-Za-z0-9+/=]){{{MIN_ENCODED},}}(?:\s|$)")
"""A row of single characters."""
MIN_CASE_SHARE = 0.25
"""The share of capitals, and of small letters, in encoded data of single characters."""
_SINGLE_WORD = re2.compile(rf"\s*{_WORD}\s*")
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{5}"
    "|[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff]{16}"
)
"""Chinese and Japanese, and the scripts of South-East Asia: a sentence needs no spaces, and a word is shorter."""
_HOST = re.compile(r"\w+://[^\s/]+")
_PART_SEPARATORS = re.compile(r"__+|[\s/\\:.?&=#,;|@\"'`(){}\[\]<>]+")
_JOINED_WORD = re.compile(r"(?<!\d)[^\W\d_](?:[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z]))(?!\d)")
_CHARACTER_RUNS = re.compile(r"[a-z]+|[A-Z]+|[0-9]+|[^a-zA-Z0-9]+")
_HEX = re.compile(r"[0-9a-fA-F\-]+")
_LETTER = re.compile(r"[^\W\d_]")


def is_prose(text: str) -> bool:
    """Whether a model can judge the text by itself: two adjacent words, or words joined into a sentence."""
    text = strip_invisible(text)
    if _PLAIN_WORDS.search(text):
        return True
    text = _SPELLED.sub(_without_spelled_noise, text)
    if _ADJACENT_WORDS.search(text) or (not text.isascii() and _UNSPACED.search(text)):
        return True
    return any(_is_joined_sentence(line) for line in fold(text).splitlines()) or _is_column(text)


def _without_spelled_noise(match: re2._Match) -> str:
    """A row of single characters, or nothing if it is encoded data with a space after each character."""
    row: str = match[0]
    run = "".join(row.split())
    cases = min(sum(map(str.isupper, run)), sum(map(str.islower, run)))
    return "\n" if is_noise(run) and cases >= MIN_CASE_SHARE * len(run) else row


def is_noise(run: str) -> bool:
    """Whether a run of characters is numbers or encoded data, which no model can judge."""
    if not _LETTER.search(run):
        return True
    run = run.strip()
    if len(run) < MIN_ENCODED or not run.isascii() or len(run.split(None, 1)) > 1:
        return False
    if sum(map(str.isdigit, run)) < MIN_DIGIT_SHARE * len(run):
        return False
    return bool(_HEX.fullmatch(run)) or len(_CHARACTER_RUNS.findall(run)) >= MIN_CHANGE_SHARE * len(run)


def _is_joined_sentence(line: str) -> bool:
    counts = [
        len(_JOINED_WORD.findall(part))
        for part in _PART_SEPARATORS.split(_HOST.sub("", line) if "://" in line else line)
    ]
    return max(counts, default=0) >= MIN_JOINED_WORDS or sum(counts) >= MIN_TOTAL_WORDS


def _is_column(text: str) -> bool:
    """Whether enough consecutive lines hold one plain word each."""
    row = 0
    for line in text.splitlines():
        row = row + 1 if _SINGLE_WORD.fullmatch(line) else 0
        if row >= MIN_TOTAL_WORDS:
            return True
    return False
