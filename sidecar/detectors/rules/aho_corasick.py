"""Which of thousands of words a text holds, in one pass that costs the same for any text (Aho-Corasick)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import ahocorasick_rs

_FIRST = itemgetter(0)
BLOCK = 8_192
"""Bytes looked through in one go: the automaton makes a tuple of every match and lets nobody else run meanwhile."""


class AhoCorasickIndex:
    """Words with a number each. Safe to use from several threads at once."""

    def __init__(self, bits_by_literal: Mapping[bytes, int]) -> None:
        self.bits_by_literal = bits_by_literal
        self.longest = max(map(len, bits_by_literal), default=0)
        self._bits_by_index = list(bits_by_literal.values())
        implementation = ahocorasick_rs.Implementation.ContiguousNFA
        self._automaton = ahocorasick_rs.BytesAhoCorasick(list(bits_by_literal), implementation=implementation)

    def search(self, text: bytes) -> int:
        """The numbers of all words in the text, united."""
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
