"""The cache of this process, bounded in entries, bytes and age.

The least recently used entry is evicted first. A cache holds values of one kind, defined by a `Codec`: reports on
segments (stored without their path, as the same text may appear elsewhere next time), or the judge's results.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sidecar.types import Finding, Label, LayerName, SegmentReport
from sidecar.util import json

ENTRY_OVERHEAD = 350
"""Bytes of an entry without its findings, including its key and its slot in the table."""
BYTES_PER_FINDING, BYTES_PER_PLACE = 300, 200

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Codec(Generic[V]):
    """How one kind of value is stored: a name that separates it from other kinds, its size in memory, its encoding.

    `load` is only called with output of `dump`.
    """

    name: str
    size: Callable[[V], int]
    dump: Callable[[V], bytes]
    load: Callable[[bytes], V]


class Cache(Protocol[V]):
    """Stores values under keys that cannot be guessed."""

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, V]:
        """The values that are cached. Never raises: a value that cannot be fetched is a miss."""
        ...

    async def put(self, values: Mapping[bytes, V]) -> None:
        """Store. Never raises."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


ReportCache = Cache[SegmentReport]


class _Entry(NamedTuple):
    value: Any
    expires_at: float
    size: int


class LocalCache(Generic[V]):
    """The cache of this process: a bounded number of entries and bytes, each kept for `ttl` seconds.

    Invariant: `size` is the sum of the sizes of all entries.
    """

    def __init__(self, entries: int, size: int, ttl: float, codec: Codec[V]) -> None:
        self._max_entries, self._max_bytes, self._ttl = entries, size, ttl
        self.codec = codec
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self._size

    def __len__(self) -> int:
        """Number of entries, including expired ones that were not requested since."""
        return len(self._entries)

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, V]:
        """See `Cache`."""
        now = time.monotonic()
        values: dict[bytes, V] = {}
        for key in keys:
            entry = self._entries.get(key)
            if entry is None:
                continue
            if entry.expires_at <= now:
                self._evict(key)
                continue
            self._entries.move_to_end(key)
            values[key] = entry.value
        return values

    async def put(self, values: Mapping[bytes, V]) -> None:
        """See `Cache`."""
        expires_at = time.monotonic() + self._ttl
        for key, value in values.items():
            if key in self._entries:
                self._evict(key)
            size = self.codec.size(value)
            self._entries[key] = _Entry(value, expires_at, size)
            self._size += size
        while len(self._entries) > self._max_entries or self._size > self._max_bytes:
            self._evict(next(iter(self._entries)))

    async def close(self) -> None:
        """Nothing to close."""

    def _evict(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= entry.size


def _memory_size(report: SegmentReport) -> int:
    return ENTRY_OVERHEAD + BYTES_PER_FINDING * len(report.findings) + BYTES_PER_PLACE * len(report.suspicious)


def _dump(report: SegmentReport) -> bytes:
    return json.dumps([report.score, [_to_list(finding) for finding in report.findings], report.suspicious])


def _load(body: bytes) -> SegmentReport:
    score, findings, suspicious = json.loads(body)
    places = tuple((start, end, place_score) for start, end, place_score in suspicious)
    return SegmentReport(score, tuple(_from_list(fields) for fields in findings), suspicious=places)


def _to_list(finding: Finding) -> list[Any]:
    position = [
        finding.start,
        finding.end,
        finding.view,
        finding.decides,
        finding.hint,
        finding.fallback,
        finding.evidence,
    ]
    return [finding.rule, finding.label, finding.score, finding.layer, *position]


def _from_list(fields: list[Any]) -> Finding:
    rule, label, score, layer, start, end, view, decides, hint, fallback, evidence = fields
    position = (start, end, view, decides, hint)
    return Finding(rule, Label(label), score, LayerName(layer), "", *position, fallback=fallback, evidence=evidence)


REPORT_CODEC = Codec("report2", _memory_size, _dump, _load)
"""The codec of reports on segments. Its name changes with the fields: replicas of two versions may share a Redis."""
