"""Judge results as the cache keeps them, and the form in which replicas share them.

Grades are shared, never words: a judge's sentence is about user text, which does not belong in Redis. A replica writes
its own reasoning for shared grades.
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
    """Grades, sanitized reasoning and cost; `cached` and `controlled` for the report."""

    grades: tuple[float, ...]
    reasoning: str | None
    tokens: int = 0
    controlled: int = 0
    cached: int = 0


class JudgeResultCache(Protocol):
    """Caches results under unguessable keys; never raises."""

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, JudgeResult]:
        """The cached results of these keys."""
        ...

    async def put(self, values: Mapping[bytes, JudgeResult]) -> None:
        """Store results."""
        ...


def memory_size(result: JudgeResult) -> int:
    """Approximate bytes in memory."""
    return ENTRY_BYTES + GRADE_BYTES * len(result.grades) + 4 * len(result.reasoning or "")


def dump(result: JudgeResult) -> bytes:
    """For replicas: the grades, and whether an acquittal was controlled."""
    return json.dumps([result.controlled, *result.grades])


def load(body: bytes) -> JudgeResult:
    """Inverse of `dump`."""
    controlled, *grades = json.loads(body)
    return JudgeResult(tuple(grades), None, controlled=controlled)
