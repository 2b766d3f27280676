"""Which sentence of third parties describes a call best.

A call that an injection caused is spelled out where the injection stands: its values, the names of its arguments and
the words of its tool come together in one sentence, and the user has not said them. Words are compared without case
and accents, in scripts without spaces by pairs of letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cached_property
from typing import NamedTuple

from sidecar.actions.arguments import PROSE_ARGUMENTS, arguments_of, flags_of, leaves
from sidecar.actions.atoms import AtomKind
from sidecar.actions.conversation import ToolCall
from sidecar.actions.passages import Passage
from sidecar.actions.provenance import Provenances
from sidecar.actions.tool_classes import name_words
from sidecar.actions.vocabulary import plain

MAX_VALUE = 200
"""Characters from which on a value is prose."""
MAX_PROSE = 4_000
"""Characters of such a value, the first ones, whose words are looked for."""
MAX_CALL_WORDS = 500
"""Words of each part of a call that are looked for."""
HALF = 0.5
"""What a word of a name or of prose counts; one of a value counts 1."""
PROSE_WORDS = 20
"""Words of prose arguments that halve what each of them counts: long prose shares words with any sentence."""
MAX_WORDS = 32
"""Words of a sentence beyond which more say nothing more."""
MAX_ARGUMENTS = 3
MAX_SHARED = 0.5
_TOKEN = re.compile(r"(?:[^\W_]|[\u0900-\u0dff\u0e31-\u0e4e]){2,}")
"""Letters and digits, with the vowel signs of Indian scripts and Thai, which are marks."""
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_COMMON = """
    the and for with from that this all to of in on at is be it as or no id true false none null
    und der die das dem den des ein eine les des una los las que por para von en de la el le un
    http https www com org net io co html php
"""
"""Words that any sentence may share with a call, and parts of any address."""


class Description(NamedTuple):
    """What a sentence says of a call. `length`: the logarithm of its number of words.

    `values`: the share of the words and atoms of the call's values that it holds and nobody said; `arguments`: the same
    of the names of arguments, three of them being 1; `subject`: the share of its words, and of those of its neighbours,
    that are the user's, at most .5.
    """

    passage: Passage
    length: float
    values: float
    arguments: float
    subject: float


AtomName = tuple[AtomKind, str]
"""Kind and comparable form of an atom."""


class _CallWords(NamedTuple):
    """What of a call nobody said: atoms, words of its values, and the weight of every word of it.

    `value_count`: of the atoms and words of its values in all.
    """

    atoms: frozenset[AtomName]
    values: frozenset[str]
    arguments: frozenset[str]
    weights: Mapping[str, float]
    value_count: int


class Descriptions:
    """The sentences of third parties, indexed by their words and atoms, for looking calls up."""

    def __init__(self, provenances: Provenances) -> None:
        self._provenances = provenances

    @cached_property
    def _sentences(self) -> list[Passage]:
        return [passage for passage in self._provenances.passages if not passage.structured]

    @cached_property
    def _index(self) -> dict[str | AtomName, list[int]]:
        """The numbers of the sentences with a word or an atom; built once, for all calls of a response."""
        index: dict[str | AtomName, list[int]] = {}
        for number, passage in enumerate(self._sentences):
            keys: tuple[str | AtomName, ...] = (*words_of(passage.text), *atom_names(passage))
            for key in keys:
                index.setdefault(key, []).append(number)
        return index

    @cached_property
    def _user(self) -> frozenset[str]:
        return words_of(self._provenances.user_text)

    @cached_property
    def _said(self) -> frozenset[str]:
        return self._user.union(*map(words_of, self._provenances.application_texts))

    def best(self, call: ToolCall, without: Set[str] = frozenset()) -> Description | None:
        """The description that says most of a call; None if no sentence says anything. `without`: as of arguments.

        Of equal ones the first.
        """
        call_words = self._words(call, without)
        totals: dict[int, float] = {}
        keys: list[tuple[str | AtomName, float]] = [
            *call_words.weights.items(),
            *((atom, 1.0) for atom in call_words.atoms),
        ]
        for key, weight in keys:
            for number in self._index.get(key, ()):
                totals[number] = totals.get(number, 0.0) + weight
        if not totals:
            return None
        best = min(totals, key=lambda number: (-round(totals[number], 6), number))
        return self._description(self._sentences[best], call_words)

    def _description(self, passage: Passage, call_words: _CallWords) -> Description:
        words, around = words_of(passage.text), words_of(passage.around)
        values = len(words & call_words.values) + len(atom_names(passage) & call_words.atoms)
        return Description(
            passage,
            math.log1p(min(len(words), MAX_WORDS)),
            values / max(1, call_words.value_count),
            min(len(words & call_words.arguments), MAX_ARGUMENTS) / MAX_ARGUMENTS,
            min(len(around & (self._user - _COMMON_WORDS)) / max(1, len(around)), MAX_SHARED),
        )

    def _words(self, call: ToolCall, without: Set[str]) -> _CallWords:
        parts = _CallParts.read(call, without)
        named = (argument.atom for argument in arguments_of(call.arguments, without))
        atoms = {(atom.kind, atom.key) for atom in named if not self._provenances.is_trusted(atom)}
        weights: dict[str, float] = {}
        for words, said, weight in (
            (parts.values, self._said, 1.0),
            (parts.prose, self._said, HALF / (1 + len(parts.prose) / PROSE_WORDS)),
            (parts.arguments, self._user, HALF),
            (parts.tool, self._user, HALF),
        ):
            for word in words:
                if word not in said:
                    weights[word] = weights.get(word, 0.0) + weight
        return _CallWords(
            frozenset(atoms),
            frozenset(parts.values) - self._said,
            frozenset(parts.arguments) - self._user,
            weights,
            len(parts.values) + len(atoms),
        )


class _CallParts(NamedTuple):
    """The words of a call, without repetitions, at most `MAX_CALL_WORDS` of each part."""

    values: list[str]
    prose: list[str]
    arguments: list[str]
    tool: list[str]

    @classmethod
    def read(cls, call: ToolCall, without: Set[str]) -> _CallParts:
        """The words of the arguments, those aside that are named, and of the tool."""
        values, prose = list[str](), list[str]()
        arguments = [_spaced(name) for name in flags_of(call.arguments) if name not in without]
        for name, value in leaves(call.arguments):
            if name in without:
                continue
            arguments.append(_spaced(name))
            is_prose = PROSE_ARGUMENTS.match(name) or len(value) > MAX_VALUE
            (prose if is_prose else values).append(value[:MAX_PROSE])
        names = name_words(call.name)
        return cls(_first(values, _COMMON_WORDS), _first(prose, _COMMON_WORDS), _first(arguments), _first(names))


def _first(texts: Iterable[str], left_out: Set[str] = frozenset()) -> list[str]:
    words = dict[str, None]()
    for word in (word for text in texts for word in _tokens(text) if word not in left_out):
        words[word] = None
        if len(words) >= MAX_CALL_WORDS:
            break
    return list(words)


def words_of(text: str) -> frozenset[str]:
    """The words of a text of two letters or digits and more; pairs of letters in scripts without spaces."""
    return frozenset(_tokens(text))


def atom_names(passage: Passage) -> frozenset[AtomName]:
    """The atoms of a passage, each once."""
    return frozenset((atom.kind, atom.key) for atom in passage.atoms)


def _tokens(text: str) -> Iterator[str]:
    return (part for word in _TOKEN.findall(plain(text)) for part in _parts(word))


def _parts(word: str) -> Iterable[str]:
    return (word[at : at + 2] for at in range(len(word) - 1)) if _UNSPACED.search(word) else (word,)


def _spaced(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])|[_-]", lambda hit: f"{hit.group(1) or ''} {hit.group(2) or ''}", name)


_COMMON_WORDS = words_of(_COMMON)
