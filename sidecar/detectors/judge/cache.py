"""What the judge remembers of earlier texts, and as which bytes it may be shared between replicas.

Shared are grades, never words: a judge's sentence is about somebody's text, and Redis is no place for that. What
a replica learns from another it puts into words of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sidecar.util import json

ENTRY_BYTES = 300
GRADE_BYTES = 24


@dataclass(frozen=True, slots=True)
class Opinion:
    """Grades and clean words, and what they cost; `cached` and `controlled` for the report."""

    grades: tuple[float, ...]
    reasoning: str | None
    tokens: int = 0
    controlled: int = 0
    cached: int = 0


class Opinions(Protocol):
    """Remembers opinions by keys that nobody can guess; never raises."""

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, Opinion]:
        """Those of the keys that are known."""
        ...

    async def put(self, values: Mapping[bytes, Opinion]) -> None:
        """Remember."""
        ...


def size(opinion: Opinion) -> int:
    """Bytes in memory, about."""
    return ENTRY_BYTES + GRADE_BYTES * len(opinion.grades) + 4 * len(opinion.reasoning or "")


def dump(opinion: Opinion) -> bytes:
    """For replicas: what was graded, and whether an acquittal was tested."""
    return json.dumps([opinion.controlled, *opinion.grades])


def load(body: bytes) -> Opinion:
    """From what `dump` made."""
    controlled, *grades = json.loads(body)
    return Opinion(tuple(grades), None, controlled=controlled)
