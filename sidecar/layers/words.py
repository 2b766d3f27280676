"""Which of thousands of words a text holds, in one pass that costs the same for any text (Aho-Corasick)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import ahocorasick_rs

_FIRST = itemgetter(0)


class Words:
    """Words with a number each. Safe to use from several threads at once."""

    def __init__(self, bits: Mapping[bytes, int]) -> None:
        self.bits = bits
        self.longest = max(map(len, bits), default=0)
        self._bits = list(bits.values())
        implementation = ahocorasick_rs.Implementation.ContiguousNFA
        self._automaton = ahocorasick_rs.BytesAhoCorasick(list(bits), implementation=implementation)

    def held(self, text: bytes) -> int:
        """The numbers of all words in the text, united."""
        found = 0
        for word in set(map(_FIRST, self._automaton.find_matches_as_indexes(text, overlapping=True))):
            found |= self._bits[word]
        return found
