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
class JudgeResult:
    """Grades and clean words, and what they cost; `cached` and `controlled` for the report."""

    grades: tuple[float, ...]
    reasoning: str | None
    tokens: int = 0
    controlled: int = 0
    cached: int = 0


class JudgeResultCache(Protocol):
    """Remembers opinions by keys that nobody can guess; never raises."""

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, JudgeResult]:
        """Those of the keys that are known."""
        ...

    async def put(self, values: Mapping[bytes, JudgeResult]) -> None:
        """Remember."""
        ...


def memory_size(result: JudgeResult) -> int:
    """Bytes in memory, about."""
    return ENTRY_BYTES + GRADE_BYTES * len(result.grades) + 4 * len(result.reasoning or "")


def dump(result: JudgeResult) -> bytes:
    """For replicas: what was graded, and whether an acquittal was tested."""
    return json.dumps([result.controlled, *result.grades])


def load(body: bytes) -> JudgeResult:
    """From what `dump` made."""
    controlled, *grades = json.loads(body)
    return JudgeResult(tuple(grades), None, controlled=controlled)
