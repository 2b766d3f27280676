"""A layer with a memory: of a conversation that grows, only what is new is read.

What is remembered is what the layer said of one segment, below every decision: thresholds, bands and exceptions
apply to it as to a fresh report. The key is a keyed digest of all that the layer's answer depends on: the text,
its source, the layer's fingerprint (policies and model), and the system prompt where it matters. Texts
that are read joined over turns and parts are segments of their own, so nothing that is split escapes because
each of its pieces is known to be harmless.

The same text asked for by several requests at once is read once. A reading that fails or is given up is not
shared: whoever waited for it reads for itself. A report on a segment that was not read to its end is never
remembered.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from sidecar.errors import LayerError
from sidecar.observability.metrics import CACHE, cached_counter
from sidecar.scan.cache.local import Verdicts
from sidecar.types import Finding, Layer, LayerName, LayerReport, ScanRequest, Segment, SegmentReport, Source

_Pending = asyncio.Future[SegmentReport | None]
_PERSON = b"verdicts"


class Remembering:
    """A `Layer` around another one that reports on each segment (`LayerReport.each`)."""

    def __init__(
        self, layer: Layer, memory: Verdicts, secret: bytes, *, fingerprint: str, reads_system_prompt: bool = False
    ) -> None:
        self.inner = layer
        self._memory = memory
        self._secret = secret[: hashlib.blake2b.MAX_KEY_SIZE]
        self._fingerprint = f"{layer.name}\0{fingerprint}"
        self._reads_system_prompt = reads_system_prompt
        self._pending: dict[bytes, _Pending] = {}
        self._hits, self._misses = (cached_counter(CACHE, str(layer.name), outcome) for outcome in ("hit", "miss"))

    @property
    def name(self) -> LayerName:
        """The layer's own."""
        return self.inner.name

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """What is known of each segment, and the layer's word on the others. Raises as the layer does."""
        keys = self._keys(request)
        wanted = dict(zip(keys, request.segments, strict=True))
        known = await self._memory.get(wanted)
        awaited = {key: self._pending[key] for key in wanted if key not in known and key in self._pending}
        mine = {key: wanted[key] for key in wanted if key not in known and key not in awaited}
        hits = len(known)
        detail, failure = await self._read(mine, known, request, prior)
        late: dict[bytes, Segment] = {}
        if awaited:
            await self._share(awaited, known)
            late = {key: wanted[key] for key in awaited if key not in known}
            later, failed = await self._read(late, known, request, prior)
            detail, failure = _sum(detail, later), failure or failed
        self._count(hits + len(awaited) - len(late), len(mine) + len(late))
        each = [_at(known[key], segment) for key, segment in zip(keys, request.segments, strict=True)]
        report = LayerReport.over(self.name, each, {**detail, "remembered": len(wanted) - len(mine)})
        return replace(report, failure=failure)

    def _keys(self, request: ScanRequest) -> list[bytes]:
        known = hashlib.blake2b(self._fingerprint.encode(), digest_size=16, key=self._secret, person=_PERSON)
        if self._reads_system_prompt and request.system_prompt is not None:
            known.update(b"\0" + _bytes(request.system_prompt))
        return [_digest(known, segment) for segment in request.segments]

    async def _read(
        self,
        segments: Mapping[bytes, Segment],
        known: dict[bytes, SegmentReport],
        request: ScanRequest,
        prior: Sequence[Finding],
    ) -> tuple[Mapping[str, float | int | str], str | None]:
        """Ask the layer, add its reports to `known`, remember them, and tell those who wait.

        Its detail, and its failure if it has not read everything.
        """
        if not segments:
            return {}, None
        fresh: dict[bytes, SegmentReport] = {}
        pending = self._announce(segments)
        try:
            wanted = ScanRequest(tuple(segments.values()), request.system_prompt, request.model, request.enough)
            report = await self.inner.scan(wanted, prior)
            if report.score is None or len(report.each) != len(segments):
                raise LayerError(report.failure or "error", "the layer did not report on each segment")
            fresh = dict(zip(segments, report.each, strict=True))
        finally:
            self._settle(pending, fresh)
        known.update(fresh)
        await self._memory.put({key: _at(found, _NOWHERE) for key, found in fresh.items() if found.whole})
        return report.detail, report.failure

    def _announce(self, keys: Iterable[bytes]) -> dict[bytes, _Pending]:
        """Whoever else wants these may wait for us; those that somebody reads already stay theirs."""
        loop = asyncio.get_running_loop()
        made: dict[bytes, _Pending] = {key: loop.create_future() for key in keys if key not in self._pending}
        self._pending.update(made)
        return made

    def _settle(self, pending: Mapping[bytes, _Pending], fresh: Mapping[bytes, SegmentReport]) -> None:
        for key, future in pending.items():
            del self._pending[key]
            found = fresh.get(key)
            future.set_result(found if found is not None and found.whole else None)

    async def _share(self, awaited: Mapping[bytes, _Pending], known: dict[bytes, SegmentReport]) -> None:
        """Wait for what others read. `wait` leaves their work alone when this request is given up."""
        await asyncio.wait(awaited.values())
        found = {key: future.result() for key, future in awaited.items()}
        known.update({key: report for key, report in found.items() if report is not None})

    def _count(self, hits: int, misses: int) -> None:
        if hits:
            self._hits.inc(hits)
        if misses:
            self._misses.inc(misses)


def _digest(known: hashlib.blake2b, segment: Segment) -> bytes:
    raw = segment.text.encode("utf-8", "surrogatepass")
    digest = known.copy()
    digest.update(_kind(segment.source) + len(raw).to_bytes(8) + raw)
    return digest.digest()


@lru_cache(maxsize=len(Source))
def _kind(source: Source) -> bytes:
    return f"\0{source}\0".encode()


def _bytes(text: str) -> bytes:
    """With its length before it, so that no two lists of texts look alike."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8) + raw


_NOWHERE = Segment("", path="")


def _at(report: SegmentReport, segment: Segment) -> SegmentReport:
    """The same report on this segment: the same text stands at other paths in other requests."""
    if not report.findings:
        return report
    return replace(report, findings=tuple(replace(f, path=segment.path_at(f.start)) for f in report.findings))


def _sum(
    first: Mapping[str, float | int | str], second: Mapping[str, float | int | str]
) -> dict[str, float | int | str]:
    """Figures of two readings together."""
    merged = dict(first)
    for name, value in second.items():
        before = merged.get(name, 0)
        merged[name] = before + value if isinstance(before, int | float) and isinstance(value, int | float) else value
    return merged
