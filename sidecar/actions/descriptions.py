"""Which sentence of third parties describes a call best.

A call that an injection caused is spelled out where the injection stands: its values, the names of its arguments and
the words of its tool come together in one sentence, and the user has not said them. Words are compared without case
and accents, in scripts without spaces by pairs of letters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Set
from functools import cached_property
from typing import Any, NamedTuple

from sidecar.actions.arguments import PROSE_ARGUMENTS, arguments_of, leaves
from sidecar.actions.atoms import AtomKind
from sidecar.actions.conversation import ToolCall
from sidecar.actions.passages import Passage
from sidecar.actions.provenance import Provenances
from sidecar.actions.tool_classes import name_words
from sidecar.actions.vocabulary import plain

MAX_VALUE = 200
"""Characters from which on a value is prose."""
HALF = 0.5
"""What a word of a name or of prose counts; one of a value counts 1."""
PROSE_WORDS = 20
"""Words of prose arguments that halve what each of them counts: long prose shares words with any sentence."""
MAX_WORDS = 32
"""Words of a sentence beyond which more say nothing more."""
MAX_ARGUMENTS = 3
MAX_SHARED = 0.5
_TOKEN = re.compile(r"[^\W_]{2,}")
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_COMMON = """
    the and for with from that this all to of in on at is be it as or no id true false none null
    und der die das dem den des ein eine les des una los las que por para von en de la el le un
"""


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
    """The words and atoms of a call that nobody said, and how many its values have in all."""

    atoms: frozenset[AtomName]
    values: frozenset[str]
    prose: frozenset[str]
    arguments: frozenset[str]
    tool: frozenset[str]
    value_count: int
    prose_count: int

    def values_in(self, passage: Passage, words: Set[str]) -> int:
        """How many words of values a sentence holds; an atom counts as one more, however it is written there."""
        return len(words & self.values) + sum((atom.kind, atom.key) in self.atoms for atom in passage.atoms)

    def weight(self, passage: Passage, words: Set[str]) -> float:
        """How much of the call a sentence with these words says."""
        names = len(words & self.arguments) + len(words & self.tool)
        prose = len(words & self.prose) / (1 + self.prose_count / PROSE_WORDS)
        return self.values_in(passage, words) + HALF * (names + prose)


class Descriptions:
    """The sentences of third parties, for looking calls up."""

    def __init__(self, provenances: Provenances) -> None:
        self._provenances = provenances

    @cached_property
    def _sentences(self) -> list[tuple[Passage, frozenset[str]]]:
        passages = self._provenances.passages
        return [(passage, words_of(passage.text)) for passage in passages if not passage.structured]

    @cached_property
    def _user(self) -> frozenset[str]:
        return words_of(self._provenances.user_text)

    @cached_property
    def _said(self) -> frozenset[str]:
        return self._user.union(*map(words_of, self._provenances.application_texts))

    def best(self, call: ToolCall, without: Set[str] = frozenset()) -> Description | None:
        """The description that says most of a call; None if no sentence says anything. `without`: as of arguments."""
        call_words = self._words(call, without)
        rated = ((call_words.weight(passage, words), passage, words) for passage, words in self._sentences)
        weight, passage, words = max(rated, key=lambda entry: entry[0], default=(0.0, None, frozenset[str]()))
        if not weight or passage is None:
            return None
        around = words_of(passage.around)
        return Description(
            passage,
            math.log1p(min(len(words), MAX_WORDS)),
            min(1.0, call_words.values_in(passage, words) / max(1, call_words.value_count)),
            min(len(words & call_words.arguments), MAX_ARGUMENTS) / MAX_ARGUMENTS,
            min(len(around & (self._user - _COMMON_WORDS)) / max(1, len(around)), MAX_SHARED),
        )

    def _words(self, call: ToolCall, without: Set[str]) -> _CallWords:
        values, prose, arguments = set[str](), set[str](), set[str](_flag_words(call.arguments))
        for name, value in leaves(call.arguments):
            if name in without:
                continue
            arguments |= words_of(_spaced(name))
            is_prose = PROSE_ARGUMENTS.match(name) or len(value) > MAX_VALUE
            (prose if is_prose else values).update(words_of(value) - _COMMON_WORDS)
        named = (argument.atom for argument in arguments_of(call.arguments, without))
        atoms = {(atom.kind, atom.key) for atom in named if not self._provenances.is_trusted(atom)}
        return _CallWords(
            frozenset(atoms),
            frozenset(values - self._said),
            frozenset(prose - self._said),
            frozenset(arguments - self._user),
            frozenset().union(*map(words_of, name_words(call.name))) - self._user,
            len(values) + len(atoms),
            len(prose),
        )


def words_of(text: str) -> frozenset[str]:
    """The words of a text of two letters or digits and more; pairs of letters in scripts without spaces."""
    return frozenset(part for word in _TOKEN.findall(plain(text)) for part in _parts(word))


def _parts(word: str) -> Iterable[str]:
    return (word[at : at + 2] for at in range(len(word) - 1)) if _UNSPACED.search(word) else (word,)


def _spaced(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])|[_-]", lambda hit: f"{hit.group(1) or ''} {hit.group(2) or ''}", name)


def _flag_words(value: Any) -> Iterator[str]:
    """The words of the names of arguments that are true or false, however deep."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += [child for child in item.values() if isinstance(child, dict | list)]
            for name, child in item.items():
                yield from words_of(_spaced(str(name))) if isinstance(child, bool) else ()
        elif isinstance(item, list):
            stack += item


_COMMON_WORDS = words_of(_COMMON)
