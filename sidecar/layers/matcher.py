"""Many patterns over one text: which of them are met.

First one pass for the words that each pattern cannot do without (`re2.Filter`): ordinary text holds few of
them, and most patterns are out. Those that remain are asked in small groups (`re2.Set`). An automaton makes
its states as the text asks for them, and the states of patterns in one group multiply; text stuffed with
trigger words asks for new ones all the time. `GROUP` and `MEMORY` are measured (`benchmarks/rules.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from sidecar.errors import PolicyError
from sidecar.policy import options

GROUP = 8
"""Patterns per automaton."""
MEMORY = 8 << 20
"""Bytes of states an automaton may keep; only hostile text comes near it."""


class Matcher:
    """Compiled patterns. Safe to use from several threads at once."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._filter = re2.Filter()
        for pattern in patterns:
            self._filter.Add(pattern, _options())
        if patterns:
            self._filter.Compile()
        self._groups = [_group(patterns[start : start + GROUP]) for start in range(0, len(patterns), GROUP)]

    def met(self, data: bytes) -> Iterator[int]:
        """The numbers of the patterns that occur in this UTF-8 text."""
        possible = self._filter.Match(data, potential=True) if self._groups else None
        for group in sorted({number // GROUP for number in possible or ()}):
            for number in self._groups[group].Match(data) or ():
                yield group * GROUP + number

    def spans(self, number: int, text: str) -> Iterator[tuple[int, int]]:
        """Where one pattern occurs, in code points, from left to right."""
        for found in self._filter.re(number).finditer(text):
            yield found.span()


def _options() -> re2.Options:
    chosen = options()
    chosen.max_mem = MEMORY
    return chosen


def _group(patterns: Sequence[str]) -> re2.Set:
    group = re2.Set.SearchSet(_options())
    for pattern in patterns:
        group.Add(pattern)
    try:
        group.Compile()
    except re2.error:
        shown = [pattern[:80] for pattern in patterns]
        raise PolicyError("patterns too large to be matched together", shown) from None
    return group
