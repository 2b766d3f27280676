"""Counts requests over a limit by key and hour in memory, until they are added to the totals of the database.

Only ids of valid keys are counted, and all clients without a key as one: the counts are as many as keys, causes, and
hours for which the database does not answer.
"""

from __future__ import annotations

import time
from collections import Counter

from sidecar.errors import StoreError
from sidecar.storage import NO_KEY, Cause, Refusals
from sidecar.util import logs

HOUR = 3600
_log = logs.get("refusals")


class RefusalCounts:
    """The counts of one process that are not written yet."""

    def __init__(self, totals: Refusals) -> None:
        self._totals = totals
        self._counts: Counter[tuple[str, int, str]] = Counter()

    def add(self, key_id: str | None, cause: Cause) -> None:
        """Count a request of a key, or of a client without one. Never waits."""
        self._counts[key_id or NO_KEY, int(time.time()) // HOUR, cause] += 1

    async def write(self) -> None:
        """Add the counts to the totals; without the database they wait for the next time."""
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            await self._totals.add(counts)
        except StoreError as error:
            self._counts += counts
            _log.warning("refusals_not_written", error=error)
