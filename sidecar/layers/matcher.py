"""Many patterns over one text: which of them are met, in one pass for each group of them.

`re2.Set` compiles a group into one automaton whose states are made as the text asks for them, and the states
of patterns in one group multiply. In one big group a text stuffed with trigger words asks for so many that
the cache of states is thrown away again and again; in small groups with room for their states it is not.
`GROUP` and `MEMORY` are measured (`benchmarks/rules.py`). A pass for necessary words before (`re2.Filter`) was
tried: plain text gains a third, and stuffed text loses five times as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from sidecar.errors import PolicyError
from sidecar.policy import compiled, options

GROUP = 16
"""Patterns per automaton."""
MEMORY = 16 << 20
"""Bytes of states an automaton may keep; only hostile text comes near it."""


class Matcher:
    """Compiled patterns. Safe to use from several threads at once."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._alone = [compiled(pattern) for pattern in patterns]
        self._groups = [_group(patterns[start : start + GROUP]) for start in range(0, len(patterns), GROUP)]

    def met(self, data: bytes) -> Iterator[int]:
        """The numbers of the patterns that occur in this UTF-8 text."""
        for first, group in enumerate(self._groups):
            for number in group.Match(data) or ():
                yield first * GROUP + number

    def spans(self, number: int, text: str) -> Iterator[tuple[int, int]]:
        """Where one pattern occurs, in code points, from left to right."""
        for found in self._alone[number].finditer(text):
            yield found.span()


def _group(patterns: Sequence[str]) -> re2.Set:
    chosen = options()
    chosen.max_mem = MEMORY
    group = re2.Set.SearchSet(chosen)
    for pattern in patterns:
        group.Add(pattern)
    try:
        group.Compile()
    except re2.error:
        shown = [pattern[:80] for pattern in patterns]
        raise PolicyError("patterns too large to be matched together", shown) from None
    return group
