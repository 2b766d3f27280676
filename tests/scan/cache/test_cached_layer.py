"""Twin of sidecar/scan/cache/cached_layer.py: around small real layers that count what they read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from sidecar.errors import LayerError
from sidecar.scan.cache import REPORTS, LocalMemory, Remembering, Verdicts
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
class Counting:
    """Finds the word "attack", and keeps what it was given to read."""

    name: LayerName = LayerName.RULES
    pause: float = 0.0
    failing: bool = False
    whole: bool = True
    read: list[str] = field(default_factory=list)

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Report on each segment."""
        self.read += [segment.text for segment in request.segments]
        await asyncio.sleep(self.pause)
        if self.failing:
            raise LayerError("unavailable")
        return LayerReport.over(self.name, [self._one(s) for s in request.segments], {"read": len(request.segments)})

    def _one(self, segment: Segment) -> SegmentReport:
        if "attack" not in segment.text:
            return SegmentReport(0.0, (), self.whole)
        at = segment.text.index("attack")
        found = Finding("T-1", Label.PROMPT_INJECTION, 0.9, self.name, segment.path, at, at + 6)
        return SegmentReport(0.9, (found,), self.whole)


def remembering(layer: Counting, memory: Verdicts | None = None, **options: object) -> Remembering:
    """A layer with an empty memory."""
    chosen: dict[str, object] = {"fingerprint": "1", **options}
    return Remembering(layer, memory or LocalMemory(100, 100_000, 60, REPORTS), b"secret", **chosen)  # type: ignore[arg-type]


def request(*texts: str, system_prompt: str | None = None) -> ScanRequest:
    """Texts of a user, each at its own place."""
    return ScanRequest(tuple(Segment(t, path=f"messages.{i}") for i, t in enumerate(texts)), system_prompt)


async def test_only_what_is_new_is_read() -> None:
    """The second turn of a conversation costs one reading."""
    layer = Counting()
    memory = remembering(layer)
    await memory.scan(request("one", "two"), ())
    report = await memory.scan(request("one", "two", "three"), ())
    assert layer.read == ["one", "two", "three"]
    assert report.detail == {"read": 1, "remembered": 2}


async def test_a_remembered_report_says_the_same_at_its_new_place() -> None:
    """Score and findings are the layer's own; the path is that of the segment in this request."""
    memory = remembering(Counting())
    await memory.scan(request("an attack"), ())
    report = await memory.scan(request("calm", "an attack", "calm"), ())
    (found,) = report.findings
    assert (report.score, found.path, found.start) == (0.9, "messages.1", 3)
    assert [one.score for one in report.each] == [0.0, 0.9, 0.0]


@pytest.mark.parametrize(
    "other",
    [
        Segment("text", Source.UNTRUSTED),
        Segment("text", Source.MODEL),
        Segment("text "),
        Segment("text\ud800"),
    ],
)
async def test_another_source_or_text_is_new(other: Segment) -> None:
    """Whatever the answer depends on is in the key."""
    layer = Counting()
    memory = remembering(layer)
    await memory.scan(ScanRequest((Segment("text"),)), ())
    await memory.scan(ScanRequest((other,)), ())
    assert len(layer.read) == 2


@pytest.mark.parametrize(("reads", "times"), [(True, 3), (False, 1)])
async def test_the_system_prompt_counts_where_the_layer_reads_it(*, reads: bool, times: int) -> None:
    """Another system prompt, or none, is another question to a layer that compares with it."""
    layer = Counting()
    memory = remembering(layer, reads_system_prompt=reads)
    for prompt in (None, "You are a pirate.", "", "You are a pirate."):
        await memory.scan(request("text", system_prompt=prompt), ())
    assert len(layer.read) == times


async def test_another_fingerprint_or_layer_knows_nothing_of_it() -> None:
    """A new policy or model reads everything anew, on the same memory."""
    shared, layers = LocalMemory(100, 100_000, 60, REPORTS), [Counting(), Counting(), Counting(LayerName.SEMANTIC)]
    for layer, fingerprint in zip(layers, "121", strict=True):
        await remembering(layer, shared, fingerprint=fingerprint).scan(request("text"), ())
    assert [len(layer.read) for layer in layers] == [1, 1, 1]


async def test_many_who_ask_at_once_share_one_reading() -> None:
    """Sixteen requests with the same text read it once, and all get the answer."""
    layer = Counting(pause=0.02)
    memory = remembering(layer)
    reports = await asyncio.gather(*(memory.scan(request("an attack", f"own {n}"), ()) for n in range(16)))
    assert (layer.read.count("an attack"), {report.score for report in reports}) == (1, {0.9})
    assert memory._pending == {}


async def test_a_reading_that_failed_is_not_shared() -> None:
    """Who waited for it asks for itself, and the failure is remembered by nobody."""
    layer = Counting(pause=0.02, failing=True)
    memory = remembering(layer)
    first = asyncio.ensure_future(memory.scan(request("text"), ()))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(memory.scan(request("text"), ()))
    with pytest.raises(LayerError):
        await first
    layer.failing = False
    assert (await second).score == 0.0
    assert layer.read == ["text", "text"]
    assert memory._pending == {}


async def test_a_request_given_up_takes_nobody_with_it() -> None:
    """The one who reads may leave, and the ones who wait may leave: the others still get an answer."""
    layer = Counting(pause=0.03)
    memory = remembering(layer)
    tasks = [asyncio.ensure_future(memory.scan(request("text"), ())) for _ in range(3)]
    await asyncio.sleep(0.01)
    tasks[1].cancel()
    tasks[0].cancel()
    assert (await tasks[2]).score == 0.0
    assert [task.cancelled() for task in tasks[:2]] == [True, True]
    assert memory._pending == {}


async def test_what_was_not_read_to_its_end_is_not_remembered_or_shared() -> None:
    """A reading that ended early says nothing of the rest: the next request reads it again."""
    layer = Counting(pause=0.01, whole=False)
    memory = remembering(layer)
    await asyncio.gather(*(memory.scan(request("text"), ()) for _ in range(2)))
    assert layer.read == ["text", "text"]
    layer.whole = True
    await memory.scan(request("text"), ())
    await memory.scan(request("text"), ())
    assert len(layer.read) == 3


async def test_a_text_that_stands_twice_is_read_once() -> None:
    """Within one request too; each place has its finding."""
    layer = Counting()
    report = await remembering(layer).scan(request("an attack", "an attack"), ())
    assert layer.read == ["an attack"]
    assert [finding.path for finding in report.findings] == ["messages.0", "messages.1"]


async def test_a_request_without_segments_is_no_question() -> None:
    """Nothing to read, nothing found."""
    layer = Counting()
    assert (await remembering(layer).scan(ScanRequest(()), ())).score == 0.0
    assert layer.read == []
