"""What this process remembers of what layers said: bounded in number, bytes and age.

The one unused for longest goes first. What is remembered is of one kind, a `Form`: reports on segments (kept
without their path, as the same text may stand elsewhere the next time), or opinions of a judge.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sidecar.types import Finding, Label, LayerName, SegmentReport
from sidecar.util import json

ENTRY_BYTES = 350
"""What an entry costs beside its findings, key and place in the table included."""
FINDING_BYTES = 300


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Form(Generic[V]):
    """How one kind of value is kept: a name that keeps it apart from other kinds, its bytes in memory, and as bytes.

    `load` gets nothing but what `dump` made.
    """

    name: str
    size: Callable[[V], int]
    dump: Callable[[V], bytes]
    load: Callable[[bytes], V]


class Memory(Protocol[V]):
    """Remembers values by keys that nobody can guess."""

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, V]:
        """Those of the keys that are known. Never raises: what cannot be asked for is not known."""
        ...

    async def put(self, values: Mapping[bytes, V]) -> None:
        """Remember. Never raises."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


Verdicts = Memory[SegmentReport]


class _Entry(NamedTuple):
    value: Any
    until: float
    size: int


class LocalMemory(Generic[V]):
    """The memory of this process: at most so many entries and bytes, each for `ttl` seconds."""

    def __init__(self, entries: int, size: int, ttl: float, form: Form[V]) -> None:
        self._most, self._most_bytes, self._ttl = entries, size, ttl
        self.form = form
        self._known: OrderedDict[bytes, _Entry] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self._size

    def __len__(self) -> int:
        """Entries, those past their time included until somebody asks for them."""
        return len(self._known)

    async def get(self, keys: Iterable[bytes]) -> dict[bytes, V]:
        """See `Memory`."""
        now = time.monotonic()
        found: dict[bytes, V] = {}
        for key in keys:
            entry = self._known.get(key)
            if entry is None:
                continue
            if entry.until <= now:
                self._forget(key)
                continue
            self._known.move_to_end(key)
            found[key] = entry.value
        return found

    async def put(self, values: Mapping[bytes, V]) -> None:
        """See `Memory`."""
        until = time.monotonic() + self._ttl
        for key, value in values.items():
            self._forget(key)
            size = self.form.size(value)
            self._known[key] = _Entry(value, until, size)
            self._size += size
        while len(self._known) > self._most or self._size > self._most_bytes:
            self._forget(next(iter(self._known)))

    async def close(self) -> None:
        """Nothing to let go of."""

    def _forget(self, key: bytes) -> None:
        entry = self._known.pop(key, None)
        if entry is not None:
            self._size -= entry.size


def _size(report: SegmentReport) -> int:
    return ENTRY_BYTES + FINDING_BYTES * len(report.findings)


def _dump(report: SegmentReport) -> bytes:
    return json.dumps([report.score, [_plain(finding) for finding in report.findings]])


def _load(body: bytes) -> SegmentReport:
    score, findings = json.loads(body)
    return SegmentReport(score, tuple(_finding(plain) for plain in findings))


def _plain(finding: Finding) -> list[Any]:
    place = [finding.start, finding.end, finding.view, finding.decides, finding.hint]
    return [finding.rule, finding.label, finding.score, finding.layer, *place]


def _finding(plain: list[Any]) -> Finding:
    rule, label, score, layer, start, end, view, decides, hint = plain
    return Finding(rule, Label(label), score, LayerName(layer), "", start, end, view, decides=decides, hint=hint)


REPORTS = Form("verdict", _size, _dump, _load)
"""Reports on segments."""
