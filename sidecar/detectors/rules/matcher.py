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

from sidecar.detectors.rules.aho_corasick import AhoCorasickIndex
from sidecar.detectors.rules.automaton import automaton
from sidecar.detectors.rules.chunks import MAX_MATCH, chunks
from sidecar.detectors.rules.fragments import NON_ASCII
from sidecar.detectors.rules.literals import Literal, clear_caches, has_case_variants, required_literals
from sidecar.errors import PolicyError
from sidecar.policy import compiled, program_size

MAX_PROGRAM = 250_000
"""Instructions of a pattern at most, so that its program fits; the largest that is shipped has 9,319."""
STUFFING_PATTERNS, STUFFING_KEYWORDS, STUFFING_WINDOW = 200, 60, 100
"""So many patterns possible in one stretch, or so many different words of patterns (of `MIN_KEYWORD` letters) among so many
words, make a text stuffed. Of the public rows the densest harmless one has 80 and 42, the densest attack 130 and 56 (of
our own 135 and 46); words of patterns in random order have 63 up, needles chosen for it 270 patterns in 1,300 bytes."""
MAX_SHARED_PROGRAM = 5_000
"""Instructions of the patterns that share an automaton, since they need no words and are searched in every text."""
COMPILE_COST = 300
"""Bytes that are searched in the time that it takes to make an automaton, for each instruction of its pattern."""
STUFFING_CHECK_FROM, MIN_KEYWORD = 24, 4
"""Patterns possible in a stretch from which on its words are counted: with fewer it costs little, whatever it says."""
Span = tuple[int, int]


class PrefilterResult(NamedTuple):
    """A text in stretches of its bytes, and the words of each as one number."""

    data: bytes
    chunk_spans: Sequence[Span]
    literal_bits: Sequence[int]


class Matcher:
    """Compiled patterns. Safe to use from several threads at once.

    What words a stretch holds is one number: the bit `rank * patterns + pattern` says that the clause of this rank of
    this pattern has a word in it. A pattern is possible if all its bits are there.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._sizes = [program_size(pattern) for pattern in patterns]
        if large := [pattern[:80] for pattern, size in zip(patterns, self._sizes, strict=True) if size > MAX_PROGRAM]:
            raise PolicyError("a pattern is too large", large)
        self._patterns = patterns
        self._automata = [automaton(pattern) for pattern in patterns]
        requirements = [required_literals(pattern) for pattern in patterns]
        clear_caches()
        self._ranks = max((len(requirement.clauses) for requirement in requirements), default=0)
        self._unbounded = sum(
            1 << number for number, requirement in enumerate(requirements) if requirement.max_letters > MAX_MATCH
        )
        unfiltered = [number for number, requirement in enumerate(requirements) if not requirement.clauses]
        self._unfiltered = self._compiled = sum(1 << number for number in unfiltered)
        groups = _grouped({number: self._sizes[number] for number in unfiltered})
        self._groups = [
            (sum(1 << n for n in group), [1 << n for n in group], automaton(*(patterns[n] for n in group)).compiled())
            for group in groups
        ]
        self._vacuous, bits = 0, dict[Literal, int]()
        for number, requirement in enumerate(requirements):
            for rank in range(self._ranks):
                bit = 1 << (rank * len(patterns) + number)
                if rank >= len(requirement.clauses):
                    self._vacuous |= bit
                for literal in requirement.clauses[rank] if rank < len(requirement.clauses) else ():
                    bits[literal] = bits.get(literal, 0) | bit
        self._non_ascii = bits.pop(NON_ASCII, 0)
        self._word_index = AhoCorasickIndex(
            {literal: literal_bits for literal, literal_bits in bits.items() if isinstance(literal, bytes)}
        )
        self._keywords = {
            part for literal in self._word_index.bits_by_literal for part in literal.split() if len(part) >= MIN_KEYWORD
        }
        signs = {literal.encode(): literal_bits for literal, literal_bits in bits.items() if isinstance(literal, str)}
        self._sign_index = AhoCorasickIndex(signs)
        self._ascii_sign_index = AhoCorasickIndex(
            {sign: literal_bits for sign, literal_bits in signs.items() if sign.isascii()}
        )
        self._longest_literal = max(self._word_index.longest, self._sign_index.longest)

    @cached_property
    def _unspaced_index(self) -> AhoCorasickIndex:
        """The words without spaces, for texts in which a letter may be between words, too."""
        bits = dict[bytes, int]()
        for literal, literal_bits in self._word_index.bits_by_literal.items():
            unspaced = literal.replace(b" ", b"")
            bits[unspaced] = bits.get(unspaced, 0) | literal_bits
        return AhoCorasickIndex(bits)

    def prefilter(self, text: str) -> PrefilterResult | None:
        """The necessary words that the text holds, for `matching`; None if it is stuffed with them.

        Nobody writes like that but to keep the automata busy, or to be looked at.
        """
        data, has_variants = text.encode(), has_case_variants(text)
        spans, literal_bits = list[Span](), list[int]()
        normal_form = raw = b""
        for chunk in chunks(data):
            normal_form = normal_form[-self._longest_literal : -1] + chunk.normal_form
            raw = raw[-self._longest_literal :] + _folded(data[chunk.start : chunk.end])
            bits = (
                self._unspaced_index.search(normal_form.replace(b" ", b""))
                if has_variants
                else self._word_index.search(normal_form)
            )
            bits |= (
                self._ascii_sign_index.search(raw) if raw.isascii() else self._sign_index.search(raw) | self._non_ascii
            )
            bits |= self._vacuous
            if self._is_keyword_stuffed(self._candidates(bits).bit_count(), normal_form):
                return None
            spans.append((chunk.start, chunk.end))
            literal_bits.append(bits)
        return PrefilterResult(data, spans, literal_bits)

    def _is_keyword_stuffed(self, candidates: int, normal_form: bytes) -> bool:
        """Whether so many patterns are possible, or the text is made of their words."""
        if candidates <= STUFFING_CHECK_FROM or candidates >= STUFFING_PATTERNS:
            return candidates >= STUFFING_PATTERNS
        tokens = normal_form.split()
        return any(
            len(self._keywords.intersection(tokens[start : start + STUFFING_WINDOW])) >= STUFFING_KEYWORDS
            for start in range(0, len(tokens), STUFFING_WINDOW)
        )

    def estimated_work(self, prefiltered: PrefilterResult | None, among: int = -1) -> int:
        """What it takes to search this text, roughly: how long the places are where patterns of `among` are possible.

        In bytes; automata that have yet to be made count as `COMPILE_COST`. Other views and what is found are not in it.
        """
        if prefiltered is None:
            return 0
        candidates = self._candidates(reduce(or_, prefiltered.literal_bits, 0)) & among
        length = len(prefiltered.data) * candidates.bit_count()
        if len(prefiltered.chunk_spans) > 2:
            length = sum(
                end - start for places in self._candidate_spans(prefiltered, among).values() for start, end in places
            )
        return length + sum(map(self._compile_cost, _set_bits(candidates & ~self._compiled)))

    def _compile_cost(self, number: int) -> int:
        if self._automata[number].is_compiled:  # by another matcher, too
            self._compiled |= 1 << number
            return 0
        return COMPILE_COST * self._sizes[number]

    def matching(
        self, prefiltered: PrefilterResult, among: int = -1, accept: Callable[[int], bool] = lambda _: True
    ) -> Iterator[int]:
        """The numbers of the patterns that occur in this text: those with a bit in `among`, if wanted in their turn.

        At the edge of a place that was searched a pattern may seem to be met; `chunk_spans` has the last word.
        """
        absent = self._unfiltered & ~self._matching_unfiltered(prefiltered.data, among)
        for number, places in sorted(self._candidate_spans(prefiltered, among & ~absent).items()):
            if accept(number) and any(
                self._automata[number].match(prefiltered.data[start:end]) for start, end in places
            ):
                yield number

    def _matching_unfiltered(self, data: bytes, among: int) -> int:
        """The patterns that need no words and are met, a bit each, of those groups that have one in `among`."""
        return sum(bits[at] for group, bits, shared in self._groups if among & group for at in shared.match(data) or ())

    def _candidate_spans(self, prefiltered: PrefilterResult, among: int) -> dict[int, list[Span]]:
        """Where patterns are possible: in two neighbours (and the bytes beside them), or in the whole text."""
        size = len(prefiltered.data)
        everywhere = among & self._unbounded if len(prefiltered.chunk_spans) > 2 else among
        spans = {
            number: [(0, size)]
            for number in _set_bits(self._candidates(reduce(or_, prefiltered.literal_bits, 0)) & everywhere)
        }
        if everywhere == among:
            return spans
        for (before, first), (current, second) in pairwise(
            zip(prefiltered.chunk_spans, prefiltered.literal_bits, strict=True)
        ):
            start, end = max(0, before[0] - 1), current[1] + 1
            for number in _set_bits(self._candidates(first | second) & among & ~everywhere):
                pattern_spans = spans.setdefault(number, [])
                if pattern_spans and pattern_spans[-1][1] > start:
                    pattern_spans[-1] = pattern_spans[-1][0], end
                else:
                    pattern_spans.append((start, end))
        return spans

    def _candidates(self, literal_bits: int) -> int:
        """The patterns of whose every clause a word is there, a bit each."""
        candidates = (1 << len(self._patterns)) - 1
        for rank in range(self._ranks):
            candidates &= literal_bits >> (rank * len(self._patterns))
        return candidates

    def spans(self, number: int, text: str) -> Iterator[tuple[int, int]]:
        """Where one pattern occurs, in code points, from left to right."""
        for match in compiled(self._patterns[number]).finditer(text):
            yield match.span()


def _set_bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _folded(raw: bytes) -> bytes:
    return raw.lower() if raw.isascii() else raw.decode().casefold().encode()


def _grouped(sizes: Mapping[int, int]) -> list[list[int]]:
    """The patterns in groups, each no larger than `MAX_SHARED_PROGRAM` unless it is of one."""
    groups: list[list[int]] = []
    for number, size in sizes.items():
        for group in groups:
            if sum(map(sizes.__getitem__, group)) + size <= MAX_SHARED_PROGRAM:
                group.append(number)
                break
        else:
            groups.append([number])
    return groups
