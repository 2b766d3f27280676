"""Many patterns over one text: which of them are met.

Hardly any text holds the words that most patterns cannot do without (`sidecar.layers.needles`). One pass of an
Aho-Corasick automaton finds those words, and only patterns whose every clause is there are searched. That pass
costs the same for any text; RE2's automata do not: they make their states as a text asks for them, and the states
of patterns that share an automaton multiply. So every pattern has one of its own, with `MEMORY` for its states.

Figures: `benchmarks/rules.py`. Tried before: all patterns in groups of 16 (stuffed text took 40 times as long as
plain text, and 250 MB), and `re2.Filter`, whose own automaton of words is as easily flooded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from weakref import WeakValueDictionary

import ahocorasick_rs
import re2

from sidecar.errors import PolicyError
from sidecar.layers.needles import DIGIT, WIDE, clauses
from sidecar.policy import compiled, options

MEMORY = (1 << 20, 4 << 20, 16 << 20)
"""Bytes that one automaton may take: the first that its program fits into with room for states."""
SLICE, CROWD = 1_000, 95
"""So many different necessary words in so many code points make a text stuffed. Of 18,000 public rows the densest
harmless one had 74, the densest attack 111; words of the shipped patterns in random order have 97 to 137."""
_DIGIT = re2.compile(r"\d")


class Stuffed(Exception):
    """A text made of trigger words: nobody writes like that but to keep the automata busy, or to be looked at."""


class Matcher:
    """Compiled patterns. Safe to use from several threads at once."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._sets = [_alone(pattern) for pattern in patterns]
        needs = [clauses(pattern) for pattern in patterns]
        self._always = [number for number, of_one in enumerate(needs) if not of_one]
        self._all = [(1 << len(of_one)) - 1 for of_one in needs]
        words = sorted({word for of_one in needs for clause in of_one for word in clause} | {DIGIT, WIDE})
        self._longest = max(map(len, words))
        self._number = {word: number for number, word in enumerate(words)}
        self._uses: list[list[tuple[int, int]]] = [[] for _ in words]
        for number, of_one in enumerate(needs):
            for place, clause in enumerate(of_one):
                for word in clause:
                    self._uses[self._number[word]].append((number, 1 << place))
        self._words = ahocorasick_rs.AhoCorasick(words, implementation=ahocorasick_rs.Implementation.ContiguousNFA)

    def met(self, text: str, wanted: Callable[[int], bool] = lambda _: True) -> Iterator[int]:
        """The numbers of the patterns that occur in this text, of those that are wanted when their turn comes.

        Raises `Stuffed` before the first of them.
        """
        data = text.encode()
        for number in self._possible(self._there(text)):
            if wanted(number) and self._sets[number].match(data):
                yield number

    def _possible(self, there: Iterable[int]) -> list[int]:
        """The patterns of whose every clause a word is there, in order."""
        met: dict[int, int] = {}
        for word in there:
            for number, bit in self._uses[word]:
                met[number] = met.get(number, 0) | bit
        return sorted([*self._always, *(number for number, bits in met.items() if bits == self._all[number])])

    def _there(self, text: str) -> set[int]:
        """The necessary words that the text holds."""
        folded, there = text.casefold(), set[int]()
        for start in range(0, len(folded), SLICE):
            part = folded[start : start + SLICE + self._longest]
            here = {hit[0] for hit in self._words.find_matches_as_indexes(part, overlapping=True)}
            if len(here) >= CROWD:
                raise Stuffed
            there |= here
        if not text.isascii():
            there.add(self._number[WIDE])
        if _DIGIT.search(text):
            there.add(self._number[DIGIT])
        return there

    def spans(self, number: int, text: str) -> Iterator[tuple[int, int]]:
        """Where one pattern occurs, in code points, from left to right."""
        for found in compiled(self._patterns[number]).finditer(text):
            yield found.span()


class _Alone:
    """The automaton of one pattern. Unlike a single search, a set is never given up for the slow algorithm."""

    __slots__ = ("__weakref__", "match")

    def __init__(self, pattern: str) -> None:
        for memory in MEMORY:
            chosen = options()
            chosen.max_mem = memory
            automaton = re2.Set.SearchSet(chosen)
            automaton.Add(pattern)
            try:
                automaton.Compile()
            except re2.error:
                continue
            self.match: Callable[[bytes], object] = automaton.Match
            return
        raise PolicyError("a pattern is too large", [pattern[:80]])


_ALIVE: WeakValueDictionary[str, _Alone] = WeakValueDictionary()
"""Automata in use: policies read again while the old ones serve share what has not changed."""


def _alone(pattern: str) -> _Alone:
    found = _ALIVE.get(pattern)
    if found is None:
        found = _ALIVE[pattern] = _Alone(pattern)
    return found
