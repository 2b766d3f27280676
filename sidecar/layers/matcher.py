"""Many patterns over one text: which of them are met, in one pass for each group of them.

`re2.Set` compiles a group into one automaton whose states are made as the text asks for them. In one big
group a text full of keywords asks for so many that the cache of states is thrown away again and again; in
groups of a few dozen, with room for their states, it does not. `GROUP` and `MEMORY` are measured
(`benchmarks/rules.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from sidecar.errors import PolicyError
from sidecar.policy import compiled, options

GROUP = 8
"""Patterns per automaton."""
MEMORY = 8 << 20
"""Bytes of states an automaton may keep; only hostile text comes near it."""


class Matcher:
    """Compiled patterns. Safe to use from several threads at once."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._alone = [compiled(pattern) for pattern in patterns]
        starts = range(0, len(patterns), GROUP)
        self._groups = [(start, _group(patterns[start : start + GROUP])) for start in starts]

    def met(self, data: bytes) -> Iterator[int]:
        """The numbers of the patterns that occur in this UTF-8 text."""
        for start, group in self._groups:
            for number in group.Match(data) or ():
                yield start + number

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
        raise PolicyError("patterns too large to be matched together", [pattern[:80] for pattern in patterns]) from None
    return group
