"""Tests of the caching decorator, around small real layers that count what they scan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from sidecar.errors import LayerError
from sidecar.scan.aggregation import MAX_INLINE_FINDINGS
from sidecar.scan.cache import REPORT_CODEC, CachedLayer, LocalCache, ReportCache
from sidecar.types import (
    Finding,
    Label,
    LayerName,
    LayerReport,
    ScanRequest,
    Segment,
    SegmentReport,
    Source,
)


@dataclass
class CountingLayer:
    """Finds the word "attack", and records the texts it scans."""

    name: LayerName = LayerName.RULES
    pause: float = 0.0
    failing: bool = False
    complete: bool = True
    read: list[str] = field(default_factory=list)

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Report on each segment."""
        self.read += [segment.text for segment in request.segments]
        await asyncio.sleep(self.pause)
        if self.failing:
            raise LayerError("unavailable")
        return LayerReport.from_segments(
            self.name, [self._report(s) for s in request.segments], {"read": len(request.segments)}
        )

    def _report(self, segment: Segment) -> SegmentReport:
        if "attack" not in segment.text:
            return SegmentReport(0.0, (), self.complete)
        at = segment.text.index("attack")
        finding = Finding("T-1", Label.PROMPT_INJECTION, 0.9, self.name, segment.path, at, at + 6)
        return SegmentReport(0.9, (finding,), self.complete)


def cached_layer(layer: CountingLayer, cache: ReportCache | None = None, **options: object) -> CachedLayer:
    """A layer with an empty cache."""
    arguments: dict[str, object] = {"fingerprint": "1", **options}
    cache = LocalCache(100, 100_000, 60, REPORT_CODEC) if cache is None else cache
    return CachedLayer(layer, cache, b"secret", **arguments)  # type: ignore[arg-type]


def request(*texts: str, system_prompt: str | None = None) -> ScanRequest:
    """User texts, each with its own path."""
    return ScanRequest(tuple(Segment(t, path=f"messages.{i}") for i, t in enumerate(texts)), system_prompt)


async def test_only_new_segments_are_scanned() -> None:
    """The second turn of a conversation scans one segment."""
    layer = CountingLayer()
    cache = cached_layer(layer)
    await cache.scan(request("one", "two"), ())
    report = await cache.scan(request("one", "two", "three"), ())
    assert layer.read == ["one", "two", "three"]
    assert report.detail == {"read": 1, "remembered": 2}


async def test_a_cached_report_has_the_path_of_the_request() -> None:
    """Score and findings are those of the layer; the path is that of the segment in this request."""
    cache = cached_layer(CountingLayer())
    await cache.scan(request("an attack"), ())
    report = await cache.scan(request("calm", "an attack", "calm"), ())
    (finding,) = report.findings
    assert (report.score, finding.path, finding.start) == (0.9, "messages.1", 3)
    assert [entry.score for entry in report.segment_reports] == [0.0, 0.9, 0.0]


async def test_hundreds_of_cached_findings_have_the_paths_of_the_request() -> None:
    """More than the event loop handles itself; the texts are in another order."""
    texts = [f"attack {number}" for number in range(MAX_INLINE_FINDINGS + 1)]
    layer = CountingLayer()
    cache = cached_layer(layer, LocalCache(10_000, 100_000_000, 60, REPORT_CODEC))
    first, second = [await cache.scan(request(*order), ()) for order in (texts, texts[::-1])]
    assert len(layer.read) == len(texts)
    for report in (first, second):
        assert [finding.path for finding in report.findings] == [f"messages.{at}" for at in range(len(texts))]


@pytest.mark.parametrize(
    "segment",
    [
        Segment("text", Source.UNTRUSTED),
        Segment("text", Source.MODEL),
        Segment("text "),
        Segment("text\ud800"),
    ],
)
async def test_another_source_or_text_is_a_miss(segment: Segment) -> None:
    """Everything the report depends on is in the key."""
    layer = CountingLayer()
    cache = cached_layer(layer)
    await cache.scan(ScanRequest((Segment("text"),)), ())
    await cache.scan(ScanRequest((segment,)), ())
    assert len(layer.read) == 2


async def test_a_turn_and_the_same_text_joined_or_packed_are_apart() -> None:
    """Topics are those of turns, so the report on one is not that on the other."""
    layer = CountingLayer()
    cache = cached_layer(layer)
    for segment in (Segment("a"), Segment("a", joined=True), Segment("a", pieces=((0, "b"),)), Segment("a")):
        await cache.scan(ScanRequest((segment,)), ())
    assert layer.read == ["a", "a"]


async def test_a_prompt_and_the_same_text_in_a_definition_are_apart() -> None:
    """The model judges them by other calibrations."""
    layer = CountingLayer()
    cache = cached_layer(layer)
    for definition in (False, True, True):
        segment = Segment("text", Source.APPLICATION, definition=definition)
        await cache.scan(ScanRequest((segment,)), ())
    assert layer.read == ["text"] * 2


@pytest.mark.parametrize(("reads", "times"), [(True, 3), (False, 1)])
async def test_the_system_prompt_is_in_the_key_where_the_layer_reads_it(*, reads: bool, times: int) -> None:
    """For such a layer another system prompt, or none, is a miss."""
    layer = CountingLayer()
    cache = cached_layer(layer, reads_system_prompt=reads)
    for prompt in (None, "You are a pirate.", "", "You are a pirate."):
        await cache.scan(request("text", system_prompt=prompt), ())
    assert len(layer.read) == times


async def test_another_fingerprint_or_layer_is_a_miss() -> None:
    """A new policy or model scans everything again, with the same cache."""
    shared, layers = (
        LocalCache(100, 100_000, 60, REPORT_CODEC),
        [CountingLayer(), CountingLayer(), CountingLayer(LayerName.SEMANTIC)],
    )
    for layer, fingerprint in zip(layers, "121", strict=True):
        await cached_layer(layer, shared, fingerprint=fingerprint).scan(request("text"), ())
    assert [len(layer.read) for layer in layers] == [1, 1, 1]


async def test_concurrent_requests_share_one_scan() -> None:
    """Sixteen requests with the same text scan it once, and all get the report."""
    layer = CountingLayer(pause=0.02)
    cache = cached_layer(layer)
    reports = await asyncio.gather(*(cache.scan(request("an attack", f"own {n}"), ()) for n in range(16)))
    assert (layer.read.count("an attack"), {report.score for report in reports}) == (1, {0.9})
    assert cache._pending == {}


async def test_a_failed_scan_is_not_shared() -> None:
    """A waiter then scans for itself, and the failure is not cached."""
    layer = CountingLayer(pause=0.02, failing=True)
    cache = cached_layer(layer)
    first = asyncio.ensure_future(cache.scan(request("text"), ()))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(cache.scan(request("text"), ()))
    with pytest.raises(LayerError):
        await first
    layer.failing = False
    assert (await second).score == 0.0
    assert layer.read == ["text", "text"]
    assert cache._pending == {}


async def test_cancelling_a_request_does_not_affect_others() -> None:
    """Whether the scanning or a waiting request is cancelled, the others still get a report."""
    layer = CountingLayer(pause=0.03)
    cache = cached_layer(layer)
    tasks = [asyncio.ensure_future(cache.scan(request("text"), ())) for _ in range(3)]
    await asyncio.sleep(0.01)
    tasks[1].cancel()
    tasks[0].cancel()
    assert (await tasks[2]).score == 0.0
    assert [task.cancelled() for task in tasks[:2]] == [True, True]
    assert cache._pending == {}


async def test_an_incomplete_scan_is_not_cached_or_shared() -> None:
    """The next request scans the segment again."""
    layer = CountingLayer(pause=0.01, complete=False)
    cache = cached_layer(layer)
    await asyncio.gather(*(cache.scan(request("text"), ()) for _ in range(2)))
    assert layer.read == ["text", "text"]
    layer.complete = True
    await cache.scan(request("text"), ())
    await cache.scan(request("text"), ())
    assert len(layer.read) == 3


async def test_a_repeated_text_is_scanned_once() -> None:
    """Within one request, too; each path has its finding."""
    layer = CountingLayer()
    report = await cached_layer(layer).scan(request("an attack", "an attack"), ())
    assert layer.read == ["an attack"]
    assert [finding.path for finding in report.findings] == ["messages.0", "messages.1"]


async def test_a_request_without_segments_is_not_scanned() -> None:
    """The report has no findings."""
    layer = CountingLayer()
    assert (await cached_layer(layer).scan(ScanRequest(()), ())).score == 0.0
    assert layer.read == []


async def test_a_report_is_shared_only_where_earlier_layers_gave_the_same_hints() -> None:
    """A profile, model or key without the rules neither fills the cache of the others nor reads from it."""
    layer = CountingLayer(LayerName.SEMANTIC)
    cache = cached_layer(layer, reads_prior=True)
    hint = Finding("X-1", Label.PROMPT_INJECTION, 0.5, LayerName.RULES, "messages.0", 3, 6, decides=False, hint=True)
    elsewhere = replace(hint, path="messages.7")
    for prior in ((), (hint,), (replace(hint, end=9),), (), (hint,), (elsewhere,), (replace(hint, hint=False),)):
        await cache.scan(request("an attack"), prior)
    assert layer.read == ["an attack"] * 3
