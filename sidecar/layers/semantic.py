"""The semantic layer: a small trained model reads the whole text in overlapping windows.

The score is the calibrated probability that the worst window of the worst segment is an attack; labels
share it by how likely each of them is in that window. `similar_to` rules of the policies are answered on
the same embedding. Text over the budget of windows is refused (`too_long`), never cut short in silence.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sidecar import config
from sidecar.layers.artefact import SHIPPED, Artefact
from sidecar.layers.inference import Read, Reader, Reading, Text
from sidecar.layers.scorer import Scorer
from sidecar.layers.similar import Neighbours, SimilarRule
from sidecar.layers.windows import Cut
from sidecar.types import Channel, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport

FLOOR = 0.1
"""Findings below this score say nothing worth a line."""


class SemanticLayer:
    """A `Layer`. Make it with `load` (blocking, off the event loop) and end it with `close`."""

    name = LayerName.SEMANTIC

    def __init__(self, artefact: Artefact, reader: Reader, neighbours: Neighbours) -> None:
        self._manifest, self._head = artefact.manifest, artefact.head
        self._reader, self._neighbours = reader, neighbours
        self._fingerprint = hashlib.sha256(artefact.manifest.model_dump_json().encode()).hexdigest()

    @classmethod
    def load(cls, settings: config.SemanticLayer, rules: Sequence[SimilarRule] = ()) -> SemanticLayer:
        """Read the model and embed the examples of the rules. Raises `ModelError` that names the file."""
        artefact = Artefact.read(_folder(settings))
        manifest = artefact.manifest
        scorer = Scorer.open(artefact, settings.threads, settles=not rules)
        reader = Reader(
            scorer,
            Cut(manifest.window, manifest.overlap, settings.windows),
            batch_tokens=settings.batch_tokens,
            calibration=manifest.calibration,
        )
        return cls(artefact, reader, Neighbours(rules, scorer.encoder, manifest))

    @property
    def fingerprint(self) -> str:
        """Changes with whatever changes its answers, but for the rules: model, head, calibration and settings."""
        return self._fingerprint

    async def close(self) -> None:
        """End the worker thread; scans still waiting fail."""
        await self._reader.close()

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:  # noqa: ARG002 - the protocol
        """Read every segment whole. Raises `LayerError` if that cannot be done."""
        segments = request.segments
        texts = [Text(s.text, s.channel is Channel.INDIRECT) for s in segments]
        reading = await self._reader.read(texts, request.enough)
        unread, reads = reading.unread, reading.by_text(len(segments))
        each = [
            self._segment(segment, reading, own, whole=number not in unread)
            for number, (segment, own) in enumerate(zip(segments, reads, strict=True))
        ]
        detail = {"windows": sum(part.windows for part in reading.parts), "windows_read": len(reading.read)}
        return LayerReport.over(self.name, each, detail)

    def _segment(self, segment: Segment, reading: Reading, reads: Sequence[Read], *, whole: bool) -> SegmentReport:
        worst = self._worst(reads)
        findings = (*self._trained(segment, reading, worst), *self._similar(segment, reading, reads))
        calm = max((self._probability(reading, read) for read in worst), default=0.0)
        return SegmentReport(max([calm, *(f.score for f in findings if f.decides)]), findings, whole)

    def _worst(self, reads: Sequence[Read]) -> list[Read]:
        """The worst window of each part that has any."""
        worst: dict[int, Read] = {}
        for read in reads:
            known = worst.get(read.part)
            if known is None or read.logits[self._head.attack] > known.logits[self._head.attack]:
                worst[read.part] = read
        return list(worst.values())

    def _probability(self, reading: Reading, read: Read) -> float:
        windows = reading.parts[read.part].windows
        return self._manifest.calibration.probability(float(read.logits[self._head.attack]), windows)

    def _trained(self, segment: Segment, reading: Reading, worst: Sequence[Read]) -> Iterator[Finding]:
        """The labels of each part's worst window; the likeliest has the whole score."""
        for read in worst:
            score = self._probability(reading, read)
            if score < FLOOR:
                continue
            chances = {label: _sigmoid(float(read.logits[row])) for label, row in self._head.labels.items()}
            if reading.parts[read.part].view.hidden:
                chances[Label.TOKEN_SMUGGLING] = max(chances.values())
            top = max(chances.values())
            for label, chance in sorted(chances.items(), key=lambda pair: -pair[1]):
                if (shared := score * chance / top) >= FLOOR:
                    yield _finding(segment, reading, read, f"SEM-{label}", label, shared)

    def _similar(self, segment: Segment, reading: Reading, reads: Sequence[Read]) -> Iterator[Finding]:
        """What the rules of the policies say by their examples."""
        features = [read.features for read in reads if read.features is not None]
        if len(features) < len(reads) or not reads:  # a glance settles windows only where there is no rule to ask
            return
        for hit in self._neighbours.hits(np.stack(features), [segment.channel] * len(reads)):
            found = _finding(segment, reading, reads[hit.window], hit.rule.id, hit.rule.label, hit.rule.score)
            yield replace(found, decides=hit.rule.status != "test")


def _finding(segment: Segment, reading: Reading, read: Read, rule: str, label: Label, score: float) -> Finding:
    view = reading.parts[read.part].view
    start, end = view.locate(read.window.start, read.window.end)
    return Finding(rule, label, score, LayerName.SEMANTIC, segment.path_at(start), start, end, view.name)


def _folder(settings: config.SemanticLayer) -> Path:
    return settings.model or SHIPPED[settings.engine]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, value))))
