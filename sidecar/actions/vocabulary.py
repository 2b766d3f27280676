"""The words by which requests, families of action and pressure are recognised, in about 25 languages (`words.txt`).

The lists are for recognising that a user asked for *some* action of a family, so they are wide: a word too many costs a
detection, a word too few a false positive.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

WORD_LIST = Path(__file__).with_name("words.txt")
FAMILIES = ("send", "share", "post", "pay", "run", "delete", "approve", "change")
"""Families of action; a tool may belong to several."""
OBJECTS = (
    "rule", "role", "secret", "bank", "address", "limit", "lock", "memory", "setting", "public", "ban", "vault"
)  # fmt: skip
"""Objects whose change is as delicate as an action, and which a request for something else does not cover."""
COMPATIBLE: dict[str, frozenset[str]] = {
    "send": frozenset({"send", "share", "post"}),
    "share": frozenset({"share"}),
    "post": frozenset({"post", "send", "share"}),
    "pay": frozenset({"pay"}),
    "run": frozenset({"run"}),
    "delete": frozenset({"delete"}),
    "approve": frozenset({"approve", "pay"}),
    "change": frozenset({"change", "delete", "share", "approve", "run"}),
}
"""A request for one of these families covers a call of this one."""
RELATED: dict[str, frozenset[str]] = {
    "pay": frozenset({"send", "approve"}),
    "share": frozenset({"send", "post"}),
}
"""A request for one of these may mean a call of this one: flowers are sent by buying them."""
_WORD = re.compile(r"[^\W_]+(?:['’.@-][^\W_]+)*")
_UNSPACED = re.compile("[\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CLAUSE_END = re.compile(r"[.,;:!?()\n\"“”«»–—-]\s*$")
_TO_THE_USER = re.compile(
    r"\b(?:tell|remind|inform|notify|ask|report to|let)\s+(?:me|us)\b"
    r"|\b(?:informier|sag|melde|erinner)\w*\s+(?:mir|mich|uns)\b"
    r"|\b(?:informe|dis|avise|rappelle|previens)[- ](?:moi|nous)\b"
    r"|\b(?:informame|avisame|informami|avvisami|ricordami|me (?:avise|informe|lembre|diga))\b"
    r"|告诉我|通知我|提醒我|教えて|知らせて|알려\s?줘|알려\s?주"
)
"""An answer to the user is no action."""
_ACCENT = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans({"ł": "l", "ı": "i", "ß": "ss", "ø": "o", "æ": "ae", "đ": "d"})
_ENDINGS = (("ing", ("", "e")), ("ed", ("", "e")), ("es", ("", "e")), ("s", ("",)), ("ied", ("y",)), ("ies", ("y",)))
_LONGEST_STEM = 16
PIECE = 500
"""Characters that are normalized together."""
_NEVER = re.compile(r"(?!)")


class _Words(NamedTuple):
    exact: frozenset[str]
    stems: frozenset[str]
    phrases: re.Pattern[str]
    unspaced: re.Pattern[str]


def plain(text: str) -> str:
    """A text without case and, in alphabets that have them, without accents: users leave them out.

    In pieces: the time that normalization takes grows with the square of a run of combining marks.
    """
    folded = text.casefold()
    if folded.isascii():
        return folded
    return "".join(_without_accents(folded[at : at + PIECE]) for at in range(0, len(folded), PIECE))


def _without_accents(piece: str) -> str:
    decomposed = unicodedata.normalize("NFD", piece)
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed)).translate(_LETTERS)


def requested_families(text: str) -> frozenset[str]:
    """The families of action that a text asks for by a word of theirs."""
    folded = _TO_THE_USER.sub(" ", plain(text))
    verbs = frozenset(_verbs(folded))
    return frozenset(name for name in FAMILIES if _has_any(folded, verbs, _parsed(f"asks {name}")))


def solicited_families(text: str) -> frozenset[str]:
    """The same of a text by third parties, which also says that something has to be done: `must be deleted`."""
    folded = plain(text)
    verbs = frozenset(stem for verb in _verbs(folded) for stem in inflections(verb))
    return frozenset(name for name in FAMILIES if _has_any(folded, verbs, _parsed(f"asks {name}")))


def inflections(word: str) -> Iterator[str]:
    """An English verb without its ending, as far as the letters tell; other words alone."""
    yield word
    for ending, others in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            stem = word.removesuffix(ending)
            yield from (stem + other for other in others)


def delegates(text: str) -> bool:
    """Whether a text leaves it to the assistant, or to a document, what to do."""
    folded = plain(text)
    return _has_any(folded, frozenset(_verbs(folded)), _parsed("delegates"))


def points(text: str) -> bool:
    """Whether a user points at what a text says: then the user wants what it describes."""
    return mentions(text, "points")


def mentions(text: str, section: str) -> bool:
    """Whether a word of a section of the list stands anywhere in a text, as whatever part of speech."""
    folded = plain(text)
    return _has_any(folded, frozenset(_WORD.findall(folded)), _parsed(section))


def word_families(text: str) -> frozenset[str]:
    """The families of action of which a word stands in a text, as what is asked for or as what a tool does."""
    return frozenset(name for name in FAMILIES if mentions(text, f"asks {name}") or mentions(text, f"describes {name}"))


def is_noun(word: str) -> bool:
    """Whether an English word for an action is a noun, too."""
    return _is_ambiguous(word) or word in names("tool nouns")


def names(section: str) -> frozenset[str]:
    """The words of a section that lists words of names."""
    return _sections()[section]


def _has_any(folded: str, words: frozenset[str], section: _Words) -> bool:
    if not section.exact.isdisjoint(words) or any(_has_stem(word, section.stems) for word in words):
        return True
    return bool(section.phrases.search(folded) or (_UNSPACED.search(folded) and section.unspaced.search(folded)))


def _has_stem(word: str, stems: frozenset[str]) -> bool:
    return any(word[:size] in stems for size in range(2, min(len(word), _LONGEST_STEM) + 1))


def _verbs(folded: str) -> Iterator[str]:
    """The words of a text, but of English ones that may be nouns only those where a verb stands."""
    before, end = "", 0
    for hit in _WORD.finditer(folded):
        word, gap = hit.group(), folded[end : hit.start()]
        is_start = not before or before in names("starters") or _CLAUSE_END.search(gap) or "\n" in gap
        if is_start or not _is_ambiguous(word):
            yield word
        before, end = word, hit.end()


def _is_ambiguous(word: str) -> bool:
    nouns = names("ambiguous")
    return word in nouns or (word[-1:] == "s" and (word[:-1] in nouns or word[:-2] in nouns))


@cache
def _sections() -> dict[str, frozenset[str]]:
    sections: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in WORD_LIST.read_text("utf-8").splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            current.update(line.split())
    return {name: frozenset(words) for name, words in sections.items()}


@cache
def _parsed(section: str) -> _Words:
    entries = sorted({plain(entry) for entry in _sections().get(section, frozenset())})
    unspaced = [entry.rstrip("*") for entry in entries if _UNSPACED.search(entry)]
    spaced = [entry for entry in entries if not _UNSPACED.search(entry)]
    single = [entry for entry in spaced if "_" not in entry]
    return _Words(
        frozenset(entry for entry in single if not entry.endswith("*")),
        frozenset(entry[:-1] for entry in single if entry.endswith("*")),
        _alternatives(_phrase(entry) for entry in spaced if "_" in entry),
        _alternatives(re.escape(entry).replace("_", r"\s*") for entry in unspaced),
    )


def _alternatives(patterns: Iterator[str]) -> re.Pattern[str]:
    joined = "|".join(patterns)
    return re.compile(joined) if joined else _NEVER


def _phrase(entry: str) -> str:
    parts = [r"(?:\S+\s+){0,4}?\S+" if part == "*" else re.escape(part) for part in entry.split("_")]
    words = r"\s+".join(parts)
    return rf"(?<!\w){words}(?!\w)"
