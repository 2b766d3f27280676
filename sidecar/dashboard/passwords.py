"""Dashboard passwords: argon2id with OWASP's parameters, computed in threads, a few at a time.

19 MiB and two passes take about 20 ms of one core: expensive for an attacker, and within a sidecar's memory limit. API
keys are random and need no slow hash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from sidecar.errors import RateLimited
from sidecar.limits import counted_bulkhead
from sidecar.util.bulkhead import BulkheadFull

SHORTEST, LONGEST = 12, 200
MAX_HASHING, MAX_WAITING = 2, 16
T = TypeVar("T")


def problem(password: str, name: str) -> str | None:
    """Why this cannot be the password of that account; None if it can."""
    if len(password) < SHORTEST:
        return f"A password needs at least {SHORTEST} characters; a few words in a row do well."
    if len(password) > LONGEST:
        return f"A password has at most {LONGEST} characters."
    if password.lower().strip() == name or len(set(password)) < 5:
        return "This password is too easy to guess."
    return None


class Passwords:
    """Hashes and verifies. Every method may raise `RateLimited` when too many calls wait."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
        self._bulkhead = counted_bulkhead(MAX_HASHING, MAX_WAITING)
        self._nobody = ""

    async def hash(self, password: str) -> str:
        """The hash in its text form."""
        return await self._compute(partial(self._hasher.hash, password))

    async def verify(self, password: str, hashed: str | None) -> bool:
        """Whether it is the password. Without a hash the result is False after the same time."""
        self._nobody = self._nobody or await self.hash("nobody has this password")
        matches = partial(self._matches, password[: LONGEST + 1], hashed or self._nobody)
        return await self._compute(matches) and hashed is not None

    async def _compute(self, work: Callable[[], T]) -> T:
        try:
            async with self._bulkhead:
                return await asyncio.to_thread(work)
        except BulkheadFull:
            raise RateLimited("Too many log in at this moment; try again in 2 s.", retry_after=2) from None

    def _matches(self, password: str, hashed: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False
