"""Which of thousands of words a text holds, in one pass that costs the same for any text (Aho-Corasick)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import ahocorasick_rs

_FIRST = itemgetter(0)
SLICE = 8_192
"""Bytes looked through in one go: the automaton makes a tuple of every match and lets nobody else run meanwhile."""


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
        found, words, last = 0, set[int](), b""
        step = SLICE + max(0, self.longest - 1)
        for at in range(0, len(text), SLICE):
            piece = text[at : at + step]
            if piece != last:
                words.update(map(_FIRST, self._automaton.find_matches_as_indexes(piece, overlapping=True)))
            last = piece
        for word in words:
            found |= self._bits[word]
        return found
