"""Aho-Corasick index: which of thousands of literals a text contains, in one pass at a text-independent cost."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import ahocorasick_rs

_FIRST = itemgetter(0)
BLOCK = 8_192
"""Bytes searched per call: the automaton returns a tuple of all matches and holds the GIL meanwhile."""


class AhoCorasickIndex:
    """Literals, each mapped to a bit mask. Thread-safe."""

    def __init__(self, bits_by_literal: Mapping[bytes, int]) -> None:
        self.bits_by_literal = bits_by_literal
        self.longest = max(map(len, bits_by_literal), default=0)
        self._bits_by_index = list(bits_by_literal.values())
        implementation = ahocorasick_rs.Implementation.ContiguousNFA
        self._automaton = ahocorasick_rs.BytesAhoCorasick(list(bits_by_literal), implementation=implementation)

    def search(self, text: bytes) -> int:
        """The union of the masks of all literals in the text.

        Invariant: adjacent blocks overlap by the longest literal less one byte, so every occurrence lies wholly in one
        block.
        """
        bits, indexes, previous = 0, set[int](), b""
        step = BLOCK + max(0, self.longest - 1)
        for start in range(0, len(text), BLOCK):
            block = text[start : start + step]
            if block != previous:
                indexes.update(map(_FIRST, self._automaton.find_matches_as_indexes(block, overlapping=True)))
            previous = block
        for index in indexes:
            bits |= self._bits_by_index[index]
        return bits
