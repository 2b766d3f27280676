"""What this process remembers of the layers' reports on segments: bounded in number, bytes and age.

The one unused for longest goes first. A report is kept without its path: the same text may stand elsewhere
the next time.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from sidecar.types import SegmentReport

ENTRY_BYTES = 350
"""What an entry costs beside its findings, key and place in the table included."""
FINDING_BYTES = 300


class Verdicts(Protocol):
    """Remembers reports by keys that nobody can guess."""

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, SegmentReport]:
        """Those of the keys that are known. Never raises: what cannot be asked for is not known."""
        ...

    async def put(self, reports: Mapping[bytes, SegmentReport]) -> None:
        """Remember. Never raises."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class _Entry(NamedTuple):
    report: SegmentReport
    until: float
    size: int


class MemoryVerdicts:
    """The memory of this process: at most so many entries and bytes, each for `ttl` seconds."""

    def __init__(self, entries: int, size: int, ttl: float) -> None:
        self._most, self._most_bytes, self._ttl = entries, size, ttl
        self._known: OrderedDict[bytes, _Entry] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self._size

    def __len__(self) -> int:
        """Entries, those past their time included until somebody asks for them."""
        return len(self._known)

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, SegmentReport]:
        """See `Verdicts`."""
        now = time.monotonic()
        found = {}
        for key in keys:
            entry = self._known.get(key)
            if entry is None:
                continue
            if entry.until <= now:
                self._forget(key)
                continue
            self._known.move_to_end(key)
            found[key] = entry.report
        return found

    async def put(self, reports: Mapping[bytes, SegmentReport]) -> None:
        """See `Verdicts`."""
        until = time.monotonic() + self._ttl
        for key, report in reports.items():
            self._forget(key)
            size = ENTRY_BYTES + FINDING_BYTES * len(report.findings)
            self._known[key] = _Entry(report, until, size)
            self._size += size
        while len(self._known) > self._most or self._size > self._most_bytes:
            self._forget(next(iter(self._known)))

    async def close(self) -> None:
        """Nothing to let go of."""

    def _forget(self, key: bytes) -> None:
        entry = self._known.pop(key, None)
        if entry is not None:
            self._size -= entry.size
