"""Many patterns over one text: which of them are met.

Hardly any text holds the words that most patterns cannot do without (`sidecar.detectors.rules.literals`). One pass
finds those words, and only patterns whose every clause is there are searched. That pass costs the same for any text;
RE2's automata do not: they make their states as a text asks for them, and the states of patterns that share an
automaton multiply. So every pattern has one of its own (`sidecar.detectors.rules.automaton`), but for the few small
ones that need no words: those are looked for in every text.

A long text holds nearly all words. It is cut into stretches (`sidecar.detectors.rules.chunks`) so long that what a
pattern meets lies in two neighbours at most: a pattern is searched where two neighbours hold its words, and only
there.

Figures: `benchmarks/rules.py`. Tried before: all patterns in groups of 16 (stuffed text took 40 times as long as
plain text, and 250 MB), and `re2.Filter`, whose own automaton of words is as easily flooded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from operator import or_
from typing import NamedTuple

from sidecar.detectors.rules.aho_corasick import Words
from sidecar.detectors.rules.automaton import automaton
from sidecar.detectors.rules.chunks import NEAR, stretches
from sidecar.detectors.rules.fragments import WIDE
from sidecar.detectors.rules.literals import Needle, forget, has_odd_letters, needs
from sidecar.errors import PolicyError
from sidecar.policy import compiled, program_size

LARGEST = 250_000
"""Instructions of a pattern at most, so that its program fits; the largest that is shipped has 9,319."""
CROWD, TRIGGERS, WORDS = 200, 60, 100
"""So many patterns possible in one stretch, or so many different words of patterns (of `LONG` letters) among so many
words, make a text stuffed. Of the public rows the densest harmless one has 80 and 42, the densest attack 130 and 56 (of
our own 135 and 46); words of patterns in random order have 63 up, needles chosen for it 270 patterns in 1,300 bytes."""
SHARED = 5_000
"""Instructions of the patterns that share an automaton, since they need no words and are searched in every text."""
MAKING = 300
"""Bytes that are searched in the time that it takes to make an automaton, for each instruction of its pattern."""
BUSY, LONG = 24, 4
"""Patterns possible in a stretch from which on its words are counted: with fewer it costs little, whatever it says."""
Span = tuple[int, int]


class Read(NamedTuple):
    """A text in stretches of its bytes, and the words of each as one number."""

    data: bytes
    spans: Sequence[Span]
    words: Sequence[int]


class Matcher:
    """Compiled patterns. Safe to use from several threads at once.

    What words a stretch holds is one number: the bit `rank * patterns + pattern` says that the clause of this rank of
    this pattern has a word in it. A pattern is possible if all its bits are there.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._sizes = [program_size(pattern) for pattern in patterns]
        if large := [pattern[:80] for pattern, size in zip(patterns, self._sizes, strict=True) if size > LARGEST]:
            raise PolicyError("a pattern is too large", large)
        self._patterns = patterns
        self._sets = [automaton(pattern) for pattern in patterns]
        every = [needs(pattern) for pattern in patterns]
        forget()
        self._ranks = max((len(of_one.clauses) for of_one in every), default=0)
        self._far = sum(1 << number for number, of_one in enumerate(every) if of_one.length > NEAR)
        bare = [number for number, of_one in enumerate(every) if not of_one.clauses]
        self._bare = self._made = sum(1 << number for number in bare)
        groups = _small({number: self._sizes[number] for number in bare})
        self._groups = [
            (sum(1 << n for n in group), [1 << n for n in group], automaton(*(patterns[n] for n in group)).made())
            for group in groups
        ]
        self._without, bits = 0, dict[Needle, int]()
        for number, of_one in enumerate(every):
            for rank in range(self._ranks):
                bit = 1 << (rank * len(patterns) + number)
                if rank >= len(of_one.clauses):
                    self._without |= bit
                for word in of_one.clauses[rank] if rank < len(of_one.clauses) else ():
                    bits[word] = bits.get(word, 0) | bit
        self._wide = bits.pop(WIDE, 0)
        self._normal = Words({word: found for word, found in bits.items() if isinstance(word, bytes)})
        self._triggers = {part for word in self._normal.bits for part in word.split() if len(part) >= LONG}
        signs = {word.encode(): found for word, found in bits.items() if isinstance(word, str)}
        self._signs = Words(signs)
        self._plain_signs = Words({sign: found for sign, found in signs.items() if sign.isascii()})
        self._longest = max(self._normal.longest, self._signs.longest)

    @cached_property
    def _run_on(self) -> Words:
        """The words without spaces, for texts in which a letter may be between words, too."""
        bits = dict[bytes, int]()
        for word, found in self._normal.bits.items():
            bare = word.replace(b" ", b"")
            bits[bare] = bits.get(bare, 0) | found
        return Words(bits)

    def read(self, text: str) -> Read | None:
        """The necessary words that the text holds, for `met`; None if it is stuffed with them.

        Nobody writes like that but to keep the automata busy, or to be looked at.
        """
        data, odd = text.encode(), has_odd_letters(text)
        spans, held = list[Span](), list[int]()
        words = raw = b""
        for stretch in stretches(data):
            words = words[-self._longest : -1] + stretch.words
            raw = raw[-self._longest :] + _folded(data[stretch.start : stretch.end])
            found = self._run_on.held(words.replace(b" ", b"")) if odd else self._normal.held(words)
            found |= self._plain_signs.held(raw) if raw.isascii() else self._signs.held(raw) | self._wide
            found |= self._without
            if self._is_stuffed(self._possible(found).bit_count(), words):
                return None
            spans.append((stretch.start, stretch.end))
            held.append(found)
        return Read(data, spans, held)

    def _is_stuffed(self, patterns: int, words: bytes) -> bool:
        """Whether so many patterns are possible, or the text is made of their words."""
        if patterns <= BUSY or patterns >= CROWD:
            return patterns >= CROWD
        each = words.split()
        return any(
            len(self._triggers.intersection(each[at : at + WORDS])) >= TRIGGERS for at in range(0, len(each), WORDS)
        )

    def work(self, read: Read | None, among: int = -1) -> int:
        """What it takes to search this text, roughly: how long the places are where patterns of `among` are possible.

        In bytes; automata that have yet to be made count as `MAKING`. Other views and what is found are not in it.
        """
        if read is None:
            return 0
        possible = self._possible(reduce(or_, read.words, 0)) & among
        length = len(read.data) * possible.bit_count()
        if len(read.spans) > 2:
            length = sum(end - start for places in self._places(read, among).values() for start, end in places)
        return length + sum(map(self._making, _bits(possible & ~self._made)))

    def _making(self, number: int) -> int:
        if self._sets[number].is_made:  # by another matcher, too
            self._made |= 1 << number
            return 0
        return MAKING * self._sizes[number]

    def met(self, read: Read, among: int = -1, wanted: Callable[[int], bool] = lambda _: True) -> Iterator[int]:
        """The numbers of the patterns that occur in this text: those with a bit in `among`, if wanted in their turn.

        At the edge of a place that was searched a pattern may seem to be met; `spans` has the last word.
        """
        absent = self._bare & ~self._bare_in(read.data, among)
        for number, places in sorted(self._places(read, among & ~absent).items()):
            if wanted(number) and any(self._sets[number].match(read.data[start:end]) for start, end in places):
                yield number

    def _bare_in(self, data: bytes, among: int) -> int:
        """The patterns that need no words and are met, a bit each, of those groups that have one in `among`."""
        return sum(
            bits[at] for group, bits, together in self._groups if among & group for at in together.match(data) or ()
        )

    def _places(self, read: Read, among: int) -> dict[int, list[Span]]:
        """Where patterns are possible: in two neighbours (and the bytes beside them), or in the whole text."""
        size = len(read.data)
        everywhere = among & self._far if len(read.spans) > 2 else among
        found = {number: [(0, size)] for number in _bits(self._possible(reduce(or_, read.words, 0)) & everywhere)}
        if everywhere == among:
            return found
        for (before, first), (here, second) in pairwise(zip(read.spans, read.words, strict=True)):
            start, end = max(0, before[0] - 1), here[1] + 1
            for number in _bits(self._possible(first | second) & among & ~everywhere):
                places = found.setdefault(number, [])
                if places and places[-1][1] > start:
                    places[-1] = places[-1][0], end
                else:
                    places.append((start, end))
        return found

    def _possible(self, words: int) -> int:
        """The patterns of whose every clause a word is there, a bit each."""
        left = (1 << len(self._patterns)) - 1
        for rank in range(self._ranks):
            left &= words >> (rank * len(self._patterns))
        return left

    def spans(self, number: int, text: str) -> Iterator[tuple[int, int]]:
        """Where one pattern occurs, in code points, from left to right."""
        for found in compiled(self._patterns[number]).finditer(text):
            yield found.span()


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _folded(raw: bytes) -> bytes:
    return raw.lower() if raw.isascii() else raw.decode().casefold().encode()


def _small(sizes: Mapping[int, int]) -> list[list[int]]:
    """The patterns in groups, each no larger than `SHARED` unless it is of one."""
    groups: list[list[int]] = []
    for number, size in sizes.items():
        for group in groups:
            if sum(map(sizes.__getitem__, group)) + size <= SHARED:
                group.append(number)
                break
        else:
            groups.append([number])
    return groups
