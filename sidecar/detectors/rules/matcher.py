"""Matches many patterns against one text behind a literal prefilter.

Hardly any text contains the required literals of most patterns (`sidecar.detectors.rules.literals`). One pass finds the
literals, and only patterns with a literal of every clause are searched. The pass costs the same for any text; RE2's
automata do not: they build their states on demand, and the states of patterns that share an automaton multiply. So
every pattern has an automaton of its own (`sidecar.detectors.rules.automaton`), except the few small ones without
literals, which are searched in every text.

A long text contains nearly all literals. It is split into chunks (`sidecar.detectors.rules.chunks`) sized so that a
match spans at most two adjacent chunks: a pattern is searched only where two neighbours together contain its literals.

Invariant: the candidates are a superset of the patterns that match; the prefilter and the chunks only save work.

Figures: `benchmarks/rules.py`. Rejected: all patterns in groups of 16 (keyword-stuffed text took 40 times as long as
plain text, and 250 MB), and `re2.Filter`, whose own literal automaton is as easily flooded.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
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
"""Maximum instructions of a pattern, so that its program fits; the largest shipped one has 9,319."""
STUFFING_PATTERNS, STUFFING_KEYWORDS, STUFFING_WINDOW = 200, 60, 100
"""Keyword stuffing: this many candidate patterns in a chunk, or this many different keywords (of `MIN_KEYWORD` letters)
among this many words. Of the public rows the densest harmless one has 80 and 42, the densest attack 130 and 56 (of
our own 135 and 46); keywords in random order reach 63 or more, literals chosen for it 270 patterns in 1,300 bytes."""
MAX_SHARED_PROGRAM = 5_000
"""Instructions of the patterns that share an automaton because they have no literals and are searched in every text."""
COMPILE_COST = 300
"""Bytes that are searched in the time it takes to build an automaton, per instruction of its pattern."""
STUFFING_CHECK_FROM, MIN_KEYWORD = 24, 4
"""Candidate patterns in a chunk from which its keywords are counted: with fewer the search is cheap anyway."""
Span = tuple[int, int]


class PrefilterResult(NamedTuple):
    """A text as chunks of its bytes, the literals of each chunk, and the candidates of the whole text, as bit masks."""

    data: bytes
    chunk_spans: Sequence[Span]
    literal_bits: Sequence[int]
    candidates: int


class Matcher:
    """Compiled patterns. Thread-safe.

    The literals of a chunk are one bit mask: the bit `rank * patterns + pattern` says that the clause of this rank of
    this pattern has a literal in it. A pattern is a candidate if all its bits are set.
    """

    def __init__(self, patterns: Sequence[str], owners: Sequence[str] = ()) -> None:
        """`owners`: the rule of each pattern, for `matching`."""
        self._owners = owners
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
        """The literals without spaces, for texts in which a letter may also separate words."""
        bits = dict[bytes, int]()
        for literal, literal_bits in self._word_index.bits_by_literal.items():
            unspaced = literal.replace(b" ", b"")
            bits[unspaced] = bits.get(unspaced, 0) | literal_bits
        return AhoCorasickIndex(bits)

    def prefilter(self, text: str) -> PrefilterResult | None:
        """The required literals in the text, for `matching`; None if it is keyword-stuffed.

        Such text exists only to keep the automata busy, or to be flagged.
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
            candidates = self._candidates(bits)
            if self._is_keyword_stuffed(candidates.bit_count(), normal_form):
                return None
            spans.append((chunk.start, chunk.end))
            literal_bits.append(bits)
        if len(spans) > 1:
            candidates = self._candidates(reduce(or_, literal_bits))
        return PrefilterResult(data, spans, literal_bits, candidates)

    def _is_keyword_stuffed(self, candidates: int, normal_form: bytes) -> bool:
        """Whether too many patterns are candidates, or the text consists of their keywords."""
        if candidates <= STUFFING_CHECK_FROM or candidates >= STUFFING_PATTERNS:
            return candidates >= STUFFING_PATTERNS
        tokens = normal_form.split()
        return any(
            len(self._keywords.intersection(tokens[start : start + STUFFING_WINDOW])) >= STUFFING_KEYWORDS
            for start in range(0, len(tokens), STUFFING_WINDOW)
        )

    def estimated_work(self, prefiltered: PrefilterResult | None, among: int = -1) -> int:
        """Estimated search cost: the length of the spans in which patterns of `among` are candidates.

        In bytes; automata not yet built count as `COMPILE_COST`. Other views and the handling of hits are not included.
        """
        if prefiltered is None:
            return 0
        candidates = prefiltered.candidates & among
        length = len(prefiltered.data) * candidates.bit_count()
        if len(prefiltered.chunk_spans) > 2:
            length = sum(
                end - start for places in self._candidate_spans(prefiltered, among).values() for start, end in places
            )
        return length + sum(map(self._compile_cost, _set_bits(candidates & ~self._compiled)))

    def _compile_cost(self, number: int) -> int:
        if self._automata[number].is_compiled:  # possibly by another matcher
            self._compiled |= 1 << number
            return 0
        return COMPILE_COST * self._sizes[number]

    def matching(
        self, prefiltered: PrefilterResult, among: int = -1, finished: Container[str] | None = None
    ) -> Iterator[int]:
        """The numbers of the patterns that match: with a bit in `among`, and no owner in `finished` by then.

        At the edge of a searched span a pattern may match falsely; `spans` decides.
        """
        absent = self._unfiltered & ~self._matching_unfiltered(prefiltered.data, among)
        for number, places in sorted(self._candidate_spans(prefiltered, among & ~absent).items()):
            if finished is not None and self._owners[number] in finished:
                continue
            for start, end in places:
                if self._automata[number].match(prefiltered.data[start:end]):
                    yield number
                    break

    def _matching_unfiltered(self, data: bytes, among: int) -> int:
        """The matching patterns without literals as a bit mask, from those groups that have one in `among`."""
        matching = 0
        for group, bits, shared in self._groups:
            if among & group:
                matching += sum(map(bits.__getitem__, shared.match(data) or ()))
        return matching

    def _candidate_spans(self, prefiltered: PrefilterResult, among: int) -> dict[int, list[Span]]:
        """Where patterns are candidates: in two adjacent chunks (and the bytes next to them), or in the whole text."""
        size = len(prefiltered.data)
        everywhere = among & self._unbounded if len(prefiltered.chunk_spans) > 2 else among
        spans = {number: [(0, size)] for number in _set_bits(prefiltered.candidates & everywhere)}
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
        """The patterns with a literal of every clause, as a bit mask."""
        candidates = (1 << len(self._patterns)) - 1
        for rank in range(self._ranks):
            candidates &= literal_bits >> (rank * len(self._patterns))
        return candidates

    def spans(self, number: int, text: str) -> Iterator[tuple[int, int]]:
        """Where one pattern matches, in code points, from left to right."""
        for match in compiled(self._patterns[number]).finditer(text):
            yield match.span()


def _set_bits(number: int) -> list[int]:
    positions = []
    while number:
        lowest = number & -number
        positions.append(lowest.bit_length() - 1)
        number ^= lowest
    return positions


def _folded(raw: bytes) -> bytes:
    return raw.lower() if raw.isascii() else raw.decode().casefold().encode()


def _grouped(sizes: Mapping[int, int]) -> list[list[int]]:
    """The patterns in groups, each at most `MAX_SHARED_PROGRAM` large unless it has a single member."""
    groups: list[list[int]] = []
    for number, size in sizes.items():
        for group in groups:
            if sum(map(sizes.__getitem__, group)) + size <= MAX_SHARED_PROGRAM:
                group.append(number)
                break
        else:
            groups.append([number])
    return groups
