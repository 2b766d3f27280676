"""Many patterns over one text: which of them are met.

Hardly any text holds the words that most patterns cannot do without (`sidecar.layers.needles`). One pass of an
Aho-Corasick automaton finds those words, and only patterns whose every clause is there are searched. That pass
costs the same for any text; RE2's automata do not: they make their states as a text asks for them, and the states
of patterns that share an automaton multiply. So every pattern has one of its own, with `MEMORY` for its states.

Figures: `benchmarks/rules.py`. Tried before: all patterns in groups of 16 (stuffed text took 40 times as long as
plain text, and 250 MB), and `re2.Filter`, whose own automaton of words is as easily flooded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from weakref import WeakValueDictionary

import ahocorasick_rs
import re2

from sidecar.errors import PolicyError
from sidecar.layers.needles import DIGIT, DIGITS, WIDE, clauses
from sidecar.policy import compiled, options

MEMORY = (1 << 20, 4 << 20, 16 << 20)
"""Bytes that one automaton may take: the first that its program fits into with room for states."""
SLICE, CROWD, LONG = 1_000, 145, 4
"""So many different necessary words of `LONG` bytes or more in so many code points make a text stuffed. Of the public
rows the densest harmless one had 103 (of our own 122), the densest attack 126; words of the shipped patterns in random
order 186 up."""
_ZEROS = bytes(ord("0") if chr(code).isascii() and chr(code).isdigit() else 0 for code in range(256))


class Matcher:
    """Compiled patterns. Safe to use from several threads at once.

    What words a text holds is one number: the bit `rank * patterns + pattern` says that the clause of this rank of
    this pattern has a word in it. A pattern is possible if all its bits are there.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._sets = [_alone(pattern) for pattern in patterns]
        needs = [clauses(pattern) for pattern in patterns]
        words = {word for of_one in needs for clause in of_one for word in clause}
        ordered = sorted(words | {WIDE}, key=lambda word: (len(word.encode()) < LONG, word))
        self._crowding = sum(len(word.encode()) >= LONG for word in ordered)
        self._longest = max(map(len, ordered))
        self._words = ahocorasick_rs.AhoCorasick(ordered, implementation=ahocorasick_rs.Implementation.ContiguousNFA)
        bits = dict.fromkeys(ordered, 0)
        self._ranks = max(map(len, needs), default=0)
        self._without = 0
        for number, of_one in enumerate(needs):
            for rank in range(self._ranks):
                bit = 1 << (rank * len(patterns) + number)
                if rank >= len(of_one):
                    self._without |= bit
                for word in of_one[rank] if rank < len(of_one) else ():
                    bits[word] |= bit
        self._bits = list(bits.values())
        self._wide = bits[WIDE]
        self._digits = [bits.get(DIGIT * times, 0) for times in range(DIGITS + 1)]

    def words(self, text: str) -> int | None:
        """The necessary words that the text holds, for `met`; None if it is stuffed with them.

        Nobody writes like that but to keep the automata busy, or to be looked at.
        """
        folded, there = text.casefold(), set[int]()
        for start in range(0, len(folded), SLICE):
            part = folded[start : start + SLICE + self._longest]
            here = {hit[0] for hit in self._words.find_matches_as_indexes(part, overlapping=True)}
            if len(here) >= CROWD and sum(word < self._crowding for word in here) >= CROWD:
                return None
            there |= here
        found = self._without | (0 if text.isascii() else self._wide) | self._digits_in(text)
        for word in there:
            found |= self._bits[word]
        return found

    def work(self, text: str, words: int | None) -> int:
        """What it takes to search a text of these words, roughly: its length for every pattern that is possible."""
        return 0 if words is None else len(text) * sum(1 for _ in self._possible(words))

    def _digits_in(self, text: str) -> int:
        """The clauses of digits: met by as many in a row, and by more."""
        data, run, found = text.encode().translate(_ZEROS), 0, 0
        while run < DIGITS and b"0" * (run + 1) in data:
            run += 1
            found |= self._digits[run]
        return found

    def met(
        self, text: str, words: int, among: int = -1, wanted: Callable[[int], bool] = lambda _: True
    ) -> Iterator[int]:
        """The numbers of the patterns that occur in this text: those with a bit in `among`, if wanted in their turn."""
        data = text.encode()
        for number in self._possible(words, among):
            if wanted(number) and self._sets[number].match(data):
                yield number

    def _possible(self, words: int, among: int = -1) -> Iterator[int]:
        """The patterns of whose every clause a word is there, in order."""
        left = among & ((1 << len(self._patterns)) - 1)
        for rank in range(self._ranks):
            left &= words >> (rank * len(self._patterns))
        while left:
            lowest = left & -left
            yield lowest.bit_length() - 1
            left ^= lowest

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
