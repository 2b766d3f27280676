"""Patterns of the telling words of a text, in the form of the policies, the most telling first.

A pattern holds three to eight words in a row. A word of `wordings.SYNONYMS` stands for its whole group, and the word in
braces `{s}` for what may stand between two words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from sidecar.harden.disguises.wordings import SYNONYMS
from sidecar.normalization.budget import count_trigger_words
from sidecar.normalization.vocabulary import FUNCTION_WORDS

WORDS = {"s": r"[\W\d_]+"}
"""The `words` of a policy file that the patterns refer to; digits number the words of a list."""
LENGTHS = range(3, 9)
"""Units of a pattern: words, and wordings of a group."""
MIN_CONTENT = 3
"""Units that are no function words."""
MIN_RUN, RUN = 8, 12
"""Letters of a run without blanks from which a part is a pattern, as in scripts without blanks, and of such a part."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SENTENCE_END = re.compile(r"[.!?;\n]+")
_DETERMINERS = "the all any of your my please every each those these our this that"
_OPTIONAL = frozenset(_DETERMINERS.split())
_ALL = SYNONYMS[[group[0] for group in SYNONYMS].index("all")]


@dataclass(frozen=True, slots=True)
class Unit:
    """A word, or words of a group, with its part of the pattern."""

    words: str
    pattern: str
    content: bool
    optional: bool
    triggers: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """The words of a text, and the pattern that finds them."""

    words: str
    pattern: str
    weight: float


def phrases(text: str) -> list[Phrase]:
    """The phrases of a text, the most telling first."""
    unordered = [phrase for sentence in _SENTENCE_END.split(text) for phrase in _phrases(sentence)]
    return sorted(unordered, key=lambda phrase: (-phrase.weight, len(phrase.pattern)))


def _phrases(sentence: str) -> Iterator[Phrase]:
    units = list(_units(_WORD.findall(sentence)))
    for start in range(len(units)):
        for length in LENGTHS:
            part = units[start : start + length]
            if len(part) == length and not (part[0].optional or part[-1].optional) and _is_telling(part):
                yield Phrase(" ".join(unit.words for unit in part), _pattern(part), _weight(part))
    for unit in units:
        if len(unit.words) >= MIN_RUN and not unit.words.isascii():
            yield from _runs(unit.words)


def _units(words: Sequence[str]) -> Iterator[Unit]:
    position = 0
    while position < len(words):
        length, group = _group_at(words, position)
        part = " ".join(words[position : position + length])
        yield _unit(part, group)
        position += length


def _group_at(words: Sequence[str], position: int) -> tuple[int, Sequence[str]]:
    """The longest wording of a group that begins here, with its number of words; one word and no group if none does."""
    for length in range(5, 0, -1):
        key = tuple(word.lower() for word in words[position : position + length])
        if len(key) == length and (group := _groups().get(key)):
            return length, group
    return 1, ()


@cache
def _groups() -> dict[tuple[str, ...], Sequence[str]]:
    """The group of each wording, the first one if several have it."""
    groups: dict[tuple[str, ...], Sequence[str]] = {}
    for group in SYNONYMS:
        for wording in group:
            groups.setdefault(tuple(wording.split()), group)
    return groups


def _unit(words: str, group: Sequence[str]) -> Unit:
    word = words.lower()
    optional = group is _ALL or (not group and word in _OPTIONAL)
    pattern = f"(?:{'|'.join('{s}'.join(wording.split()) for wording in group)})" if group else word
    content = not optional and word not in FUNCTION_WORDS
    return Unit(words, pattern, content, optional, count_trigger_words(" ".join([word, *group])) and int(content))


def _is_telling(part: Sequence[Unit]) -> bool:
    return sum(unit.content for unit in part) >= MIN_CONTENT and part[0].content and part[-1].content


def _weight(part: Sequence[Unit]) -> float:
    """Words that attacks need count most; a filling word makes the pattern narrower without telling more."""
    return sum(2 * unit.triggers + 0.8 * unit.content for unit in part) - 0.6 * len(part)


def _pattern(part: Sequence[Unit]) -> str:
    pieces = [f"(?:{unit.pattern}{{s}})?" if unit.optional else f"{unit.pattern}{{s}}" for unit in part[:-1]]
    return _bound("".join([*pieces, part[-1].pattern]), part[0].words[0], part[-1].words[-1])


def _bound(pattern: str, first: str, last: str) -> str:
    r"""With `\b` at the ends that are ASCII: RE2 knows no other letters there."""
    before, after = (r"\b" if sign.isascii() else "" for sign in (first, last))
    return f"{before}{pattern}{after}"


def _runs(word: str) -> Iterator[Phrase]:
    """Parts of a run without blanks; few of them, since each is proved."""
    for start in range(0, max(1, len(word) - MIN_RUN + 1), RUN // 2):
        part = word[start : start + RUN]
        if len(part) >= MIN_RUN:
            yield Phrase(part, part, count_trigger_words(part) + 0.5)
