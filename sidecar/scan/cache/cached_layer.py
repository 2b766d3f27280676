"""A caching decorator for layers: in a growing conversation only new segments are scanned.

Cached is the layer's report on one segment, before any decision: thresholds, bands and exceptions apply to it as to a
fresh report. The key is a keyed digest of everything the report depends on: the text, its source, the layer's
fingerprint (policies and model), and the system prompt where it matters. Texts that are scanned joined over turns and
parts are segments of their own, so a split attack is not missed because each of its pieces is cached as harmless.
The model looks closer where a `fallback` rule has a hit: callers whose keys switch such a rule off share its report.

Concurrent requests for the same text scan it once. A scan that fails or is cancelled is not shared: each waiter then
scans for itself. A report on a segment that was not scanned to its end is never cached.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter

from sidecar.errors import LayerError
from sidecar.observability.metrics import CACHE, cached_counter
from sidecar.scan.aggregation import MAX_INLINE_FINDINGS
from sidecar.scan.cache.local import ReportCache
from sidecar.types import Finding, Layer, LayerReport, ScanRequest, Segment, SegmentReport, Source

MAX_INLINE_LENGTH = 500_000
"""Code points of a request that are digested on the event loop."""
_text_of = attrgetter("text")
_Pending = asyncio.Future[SegmentReport | None]
_PERSONALIZATION = b"verdicts"


class CachedLayer:
    """A `Layer` around another one that reports on each segment (`LayerReport.segment_reports`).

    Invariant: a key is in `_pending` exactly while one request scans it, and its future is always resolved: with the
    report, or with None if there is none to share.
    """

    def __init__(
        self,
        layer: Layer,
        cache: ReportCache,
        secret: bytes,
        *,
        fingerprint: str,
        reads_system_prompt: bool = False,
        reads_prior: bool = False,
    ) -> None:
        """`reads_prior`: where earlier layers found hints changes the report, so these places are in its key.

        They differ for the same text: a profile, model, source or key may be without the rules, or with others.
        """
        self.inner, self.name = layer, layer.name
        self._cache = cache
        self._secret = secret[: hashlib.blake2b.MAX_KEY_SIZE]
        self._fingerprint = f"{layer.name}\0{fingerprint}"
        self._reads_system_prompt, self._reads_prior = reads_system_prompt, reads_prior
        self._pending: dict[bytes, _Pending] = {}
        self._hits, self._misses = (cached_counter(CACHE, str(layer.name), outcome) for outcome in ("hit", "miss"))

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Cached reports where available, the layer's on the other segments. Raises as the layer does."""
        is_long = sum(map(len, map(_text_of, request.segments))) > MAX_INLINE_LENGTH
        keys = await asyncio.to_thread(self._keys, request, prior) if is_long else self._keys(request, prior)
        requested = dict(zip(keys, request.segments, strict=True))
        cached = await self._cache.get(requested)
        shared: dict[bytes, _Pending] = {}
        missing: dict[bytes, Segment] = {}
        for key, segment in requested.items():
            if key not in cached and key in self._pending:
                shared[key] = self._pending[key]
            elif key not in cached:
                missing[key] = segment
        hits = len(cached)
        report = await self._scan_missing(missing, cached, request, prior) if missing else LayerReport(self.name, 0.0)
        retried: dict[bytes, Segment] = {}
        if shared:
            await self._await_shared(shared, cached)
            retried = {key: requested[key] for key in shared if key not in cached}
            if retried:
                report = _merged(report, await self._scan_missing(retried, cached, request, prior))
        self._count(hits + len(shared) - len(retried), len(missing) + len(retried))
        if len(missing) < len(keys):  # otherwise the layer's own report is on all segments
            reports = [_relocate(cached[key], segment) for key, segment in zip(keys, request.segments, strict=True)]
            report = LayerReport.from_segments(self.name, reports, report.detail, report.failure)
        report.detail = {**report.detail, "remembered": len(requested) - len(missing)}
        return report

    def _keys(self, request: ScanRequest, prior: Sequence[Finding]) -> list[bytes]:
        prefix = hashlib.blake2b(self._fingerprint.encode(), digest_size=16, key=self._secret, person=_PERSONALIZATION)
        if self._reads_system_prompt and request.system_prompt is not None:
            prefix.update(b"\0" + _length_prefixed(request.system_prompt))
        hints = _hints(prior) if self._reads_prior and prior else {}
        return [_digest(prefix, segment, hints) for segment in request.segments]

    async def _scan_missing(
        self,
        segments: Mapping[bytes, Segment],
        cached: dict[bytes, SegmentReport],
        request: ScanRequest,
        prior: Sequence[Finding],
    ) -> LayerReport:
        """The layer's report on these segments: add its parts to `cached`, store them, and resolve the waiters."""
        fresh: dict[bytes, SegmentReport] = {}
        pending = self._claim(segments)
        try:
            if len(segments) < len(request.segments):
                request = replace(request, segments=tuple(segments.values()))
            report = await self.inner.scan(request, prior)
            if report.score is None or len(report.segment_reports) != len(segments):
                raise LayerError(report.failure or "error", "the layer did not report on each segment")
            fresh = dict(zip(segments, report.segment_reports, strict=True))
        finally:
            self._resolve(pending, fresh)
        cached.update(fresh)
        is_long = len(report.findings) > MAX_INLINE_FINDINGS
        await self._cache.put(await asyncio.to_thread(_without_paths, fresh) if is_long else _without_paths(fresh))
        return report

    def _claim(self, keys: Iterable[bytes]) -> dict[bytes, _Pending]:
        """Register futures for keys that no other request is scanning, so that others can wait for them."""
        loop = asyncio.get_running_loop()
        claimed: dict[bytes, _Pending] = {}
        for key in keys:
            if key not in self._pending:
                claimed[key] = self._pending[key] = loop.create_future()
        return claimed

    def _resolve(self, pending: Mapping[bytes, _Pending], fresh: Mapping[bytes, SegmentReport]) -> None:
        for key, future in pending.items():
            del self._pending[key]
            report = fresh.get(key)
            future.set_result(report if report is not None and report.complete else None)

    async def _await_shared(self, shared: Mapping[bytes, _Pending], cached: dict[bytes, SegmentReport]) -> None:
        """Wait for scans of other requests; cancelling this request does not cancel them."""
        await asyncio.wait(shared.values())
        results = {key: future.result() for key, future in shared.items()}
        cached.update({key: report for key, report in results.items() if report is not None})

    def _count(self, hits: int, misses: int) -> None:
        if hits:
            self._hits.inc(hits)
        if misses:
            self._misses.inc(misses)


def _hints(prior: Sequence[Finding]) -> dict[str, list[tuple[int, int]]]:
    """The places of hints by path."""
    places: dict[str, list[tuple[int, int]]] = {}
    for finding in prior:
        if finding.hint and finding.start is not None and finding.end is not None:
            places.setdefault(finding.path, []).append((finding.start, finding.end))
    return places


def _digest(prefix: hashlib.blake2b, segment: Segment, hints: Mapping[str, Sequence[tuple[int, int]]]) -> bytes:
    raw = segment.text.encode("utf-8", "surrogatepass")
    digest = prefix.copy()
    if segment.joined or segment.pieces:
        digest.update(b"no turn")  # topics are those of turns
    if segment.definition:
        digest.update(b"definition")
    digest.update(_source_tag(segment.source) + len(raw).to_bytes(8) + raw)
    if hints and (places := sorted(place for path in segment.paths for place in hints.get(path, ()))):
        digest.update(repr(places).encode())
    return digest.digest()


@lru_cache(maxsize=len(Source))
def _source_tag(source: Source) -> bytes:
    return f"\0{source}\0".encode()


def _length_prefixed(text: str) -> bytes:
    """With a length prefix, so that no two sequences of texts collide."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8) + raw


_NO_SEGMENT = Segment("", path="")


def _relocate(report: SegmentReport, segment: Segment) -> SegmentReport:
    """The report with the paths of this segment: the same text has other paths in other requests."""
    if not report.findings:
        return report
    paths = [segment.path_at(finding.start) for finding in report.findings]
    findings = zip(report.findings, paths, strict=True)
    return replace(report, findings=tuple(f if f.path == path else replace(f, path=path) for f, path in findings))


def _without_paths(reports: Mapping[bytes, SegmentReport]) -> dict[bytes, SegmentReport]:
    """The complete reports as they are cached, for requests in which the texts have other paths."""
    return {key: _relocate(entry, _NO_SEGMENT) for key, entry in reports.items() if entry.complete}


def _merged(first: LayerReport, second: LayerReport) -> LayerReport:
    """The sum of the figures of two scans, and the failure of either."""
    detail = dict(first.detail)
    for name, value in second.detail.items():
        total = detail.get(name, 0)
        detail[name] = total + value if isinstance(total, int | float) and isinstance(value, int | float) else value
    return replace(first, detail=detail, failure=first.failure or second.failure)
