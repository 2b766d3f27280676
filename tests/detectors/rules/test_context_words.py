"""The words of `sidecar.detectors.rules.context` compile, small enough to be searched at every hit."""

from __future__ import annotations

import re2

from sidecar.detectors.rules import context_words

LARGEST = 12_000
"""Instructions of one pattern; beyond that RE2's automata run out of memory and become slow."""


def test_every_pattern_is_small() -> None:
    """All word lists compile within the limit."""
    names = [name for name in vars(context_words) if name.isupper() and not name.startswith("_")]
    patterns = [p for name in names for p in _as_list(getattr(context_words, name))]
    sizes = {pattern[:60]: re2.compile(pattern).programsize for pattern in patterns}
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def _as_list(value: str | tuple[str, ...]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
