"""RE2 automata: bounded memory, compiled on first use, shared by all users of the same patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from weakref import WeakValueDictionary

import re2

from sidecar.errors import PolicyError
from sidecar.policy import re2_options

MEMORY_LIMITS = (1 << 20, 4 << 20, 16 << 20)
"""Memory limits of one automaton in bytes; the first that fits the program with room for states is used."""


class Automaton:
    """The automaton of a set of patterns, compiled on first use: most patterns' literals hardly ever occur.

    Unlike a single search, an RE2 set never falls back to the slow algorithm.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns

    @property
    def is_compiled(self) -> bool:
        """Whether the automaton has been compiled."""
        return "match" in vars(self)

    def compiled(self) -> Automaton:
        """Compile now and return self."""
        _ = self.match
        return self

    @cached_property
    def match(self) -> Callable[[bytes], Sequence[int] | None]:
        """The numbers of the patterns that match a text, or None."""
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
"""Automata in use: a policy reload shares the automata of unchanged patterns."""


def automaton(*patterns: str) -> Automaton:
    """The shared automaton of these patterns."""
    existing = _SHARED.get(patterns)
    if existing is None:
        existing = _SHARED[patterns] = Automaton(patterns)
    return existing
