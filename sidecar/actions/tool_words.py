"""What the words of a tool say that it does: those of its name, and the verbs of its description in any language.

A verb in the name decides. A noun there (`mail_search`, `order_list`) is what the tool is about, so the description is
asked, which says it by its first word, by verbs after an `and`, or, where verbs come last, by its last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sidecar.actions.vocabulary import FAMILIES, inflections, is_noun, mentions, names, plain, word_families

_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE = re.compile(r"(?<=[.!?。])\s|\n")
_UNSPACED = re.compile("[\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_AFTER_NOUN = frozenset({"of", "by", "with", "from"})
MAX_DESCRIPTION = 300


class Action(NamedTuple):
    """The families of an action, none for one that reads. `is_sure`: a verb says it, not a noun."""

    families: frozenset[str] = frozenset()
    is_sure: bool = False

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return not self.families


def named_action(words: list[str]) -> Action | None:
    """What the words of a name say, if anything. After a verb that says little (`create`) nouns count, too."""
    families: frozenset[str] = frozenset()
    is_vague = has_noun = False
    for word in map(_singular, words):
        if word == "open" and not names("tool object lock").isdisjoint(words):
            return Action(frozenset({"change"}), True)
        if word in names("tool reads") and not is_vague and not (families and is_noun(word)):
            return Action(frozenset(), word not in names("tool state"))
        meaning = families_of(word)
        if meaning and word in names("tool vague"):
            is_vague = True
        elif meaning and not is_noun(word):
            return _with_money(words, Action(meaning if has_noun else meaning | families, True))
        elif has_noun or not meaning:
            continue
        else:
            has_noun = True
        families |= meaning
    return _with_money(words, Action(families), is_vague) if families else None


def _with_money(words: list[str], action: Action, is_vague: bool = False) -> Action:
    """To send money is to pay."""
    is_payment = not names("tool money").isdisjoint(words) and (is_vague or "send" in action.families)
    return action._replace(families=frozenset({"pay"})) if is_payment else action


def described_action(description: str) -> Action | None:
    """What the verbs of a description say, if anything."""
    sentence = _SENTENCE.split(plain(description[:MAX_DESCRIPTION]).strip(), maxsplit=1)[0]
    if _UNSPACED.search(sentence):
        return _action_of(_unspaced(sentence))
    words = _WORD.findall(sentence)
    if not words or (words[1:2] and words[1] in _AFTER_NOUN):
        return None
    if mentions(words[0], "light"):
        return _action_of(frozenset[str]().union(*(_verb(word) or frozenset() for word in words[1:])) or None)
    verb = words[0] if _verb(words[0]) is not None or is_noun(words[-1]) else words[-1]
    first = _verb(verb)
    if first and mentions(verb, "writing") and mentions(sentence, "files"):
        first = frozenset({"change"})
    if first and "send" in first and mentions(sentence, "money"):
        first = frozenset({"pay"})
    return _action_of(first.union(*_later(words)) if first else first)


def foreign_families(word: str) -> frozenset[str]:
    """The families of a verb that is in no list of English names. One that updates may run something, but rarely."""
    families = word_families(word)
    if {"change", "run"} <= families:
        return frozenset({"change"})
    return families - {"change"} or families


def families_of(word: str) -> frozenset[str]:
    """The families that a word in the name of a tool stands for."""
    return frozenset(family for family in FAMILIES if word in names(f"tool {family}"))


def _action_of(families: frozenset[str] | None) -> Action | None:
    return None if families is None else Action(families, True)


def _verb(word: str) -> frozenset[str] | None:
    """The families of a verb, none for one that reads; None for a word that is not known."""
    for stem in inflections(word):
        if stem in names("tool reads") - names("tool state") - {"open"}:
            return frozenset()
        if families := families_of(stem):
            return families
    if mentions(word, "describes reads"):
        return frozenset()
    return None if is_noun(word) else foreign_families(word) or None


def _later(words: list[str]) -> Iterator[frozenset[str]]:
    """The families of verbs after an `and`."""
    for before, word in pairwise(words[1:]):
        if mentions(before, "and") and not is_noun(word):
            yield _verb(word) or frozenset()


def _unspaced(sentence: str) -> frozenset[str] | None:
    return frozenset() if mentions(sentence, "describes reads") else foreign_families(sentence) or None


def _singular(word: str) -> str:
    return word if word in names("tool reads") or families_of(word) else word.removesuffix("s")
