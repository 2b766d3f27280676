"""RE2's automata: bounded in memory, made when they are first needed, shared by all who have the same patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from weakref import WeakValueDictionary

import re2

from sidecar.errors import PolicyError
from sidecar.policy import re2_options

MEMORY_LIMITS = (1 << 20, 4 << 20, 16 << 20)
"""Bytes that one automaton may take: the first that its program fits into with room for states."""


class Automaton:
    """The automaton of patterns, made when it is first asked: most patterns' words hardly ever occur.

    Unlike a single search, a set is never given up for the slow algorithm.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns

    @property
    def is_compiled(self) -> bool:
        """Whether it was asked before."""
        return "match" in vars(self)

    def compiled(self) -> Automaton:
        """The same, made now."""
        _ = self.match
        return self

    @cached_property
    def match(self) -> Callable[[bytes], Sequence[int] | None]:
        """The numbers of the patterns that are met in a text, or None."""
        for memory in MEMORY_LIMITS:
            settings = re2_options()
            settings.max_mem = memory
            automaton = re2.Set.SearchSet(settings)
            for pattern in self._patterns:
                automaton.Add(pattern)
            try:
                automaton.Compile()
            except re2.error:
                continue
            match: Callable[[bytes], Sequence[int] | None] = automaton.Match
            return match
        raise PolicyError("a pattern is too large", [pattern[:80] for pattern in self._patterns])


_SHARED: WeakValueDictionary[tuple[str, ...], Automaton] = WeakValueDictionary()
"""Automata in use: policies read again while the old ones serve share what has not changed."""


def automaton(*patterns: str) -> Automaton:
    """The automaton of these patterns, which all who ask for them share."""
    existing = _SHARED.get(patterns)
    if existing is None:
        existing = _SHARED[patterns] = Automaton(patterns)
    return existing
