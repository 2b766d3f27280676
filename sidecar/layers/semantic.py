"""The semantic layer: a small trained model reads the whole text in overlapping windows.

The score is the calibrated probability that the worst window of the worst segment is an attack; labels
share it by how likely each of them is in that window. `similar_to` rules of the policies are answered on
the same embedding. Text over the budget of windows is refused (`too_long`), never cut short in silence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sidecar import config
from sidecar.layers.artefact import SHIPPED, Artefact
from sidecar.layers.embedding import open_encoder
from sidecar.layers.inference import Read, Reader, Reading, Text
from sidecar.layers.similar import Neighbours, SimilarRule
from sidecar.layers.windows import Cut
from sidecar.types import Channel, Finding, LayerName, LayerReport, ScanRequest, Segment

FLOOR = 0.1
"""Findings below this score say nothing worth a line."""


class SemanticLayer:
    """A `Layer`. Make it with `load` (blocking, off the event loop) and end it with `close`."""

    name = LayerName.SEMANTIC

    def __init__(self, artefact: Artefact, reader: Reader, neighbours: Neighbours) -> None:
        self._manifest, self._head = artefact.manifest, artefact.head
        self._reader, self._neighbours = reader, neighbours

    @classmethod
    def load(cls, settings: config.SemanticLayer, rules: Sequence[SimilarRule] = ()) -> SemanticLayer:
        """Read the model and embed the examples of the rules. Raises `ModelError` that names the file."""
        artefact = Artefact.read(_folder(settings))
        encoder = open_encoder(artefact, settings.threads)
        manifest = artefact.manifest
        reader = Reader(
            encoder,
            artefact.head,
            Cut(manifest.window, manifest.overlap, settings.windows),
            batch_tokens=settings.batch_tokens,
            certain=manifest.certain,
        )
        return cls(artefact, reader, Neighbours(rules, encoder, manifest))

    async def close(self) -> None:
        """End the worker thread; scans still waiting fail."""
        await self._reader.close()

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:  # noqa: ARG002 - the protocol
        """Read every segment whole. Raises `LayerError` if that cannot be done."""
        segments = request.segments
        reading = await self._reader.read([Text(s.text, s.channel is Channel.INDIRECT) for s in segments])
        findings = (*self._trained(segments, reading), *self._similar(segments, reading))
        score = max((self._probability(reading, number) for number in range(len(segments))), default=0.0)
        score = max([score, *(f.score for f in findings if f.decides)])
        detail = {"windows": sum(reading.totals), "windows_read": len(reading.read)}
        return LayerReport(self.name, score, findings, detail=detail)

    def _worst(self, reading: Reading, number: int) -> Read | None:
        read = [read for read in reading.read if read.text == number]
        return max(read, key=lambda r: r.logits[self._head.attack], default=None)

    def _probability(self, reading: Reading, number: int) -> float:
        worst = self._worst(reading, number)
        if worst is None:
            return 0.0
        return self._manifest.calibration.probability(float(worst.logits[self._head.attack]), reading.totals[number])

    def _trained(self, segments: Sequence[Segment], reading: Reading) -> Iterator[Finding]:
        """The labels of each segment's worst window; the likeliest has the whole score."""
        for number, segment in enumerate(segments):
            worst, score = self._worst(reading, number), self._probability(reading, number)
            if worst is None or score < FLOOR:
                continue
            chances = {label: _sigmoid(float(worst.logits[row])) for label, row in self._head.labels.items()}
            top = max(chances.values())
            for label, chance in sorted(chances.items(), key=lambda pair: -pair[1]):
                if (shared := score * chance / top) >= FLOOR:
                    start, end = worst.window.start, worst.window.end
                    yield Finding(f"SEM-{label}", label, shared, self.name, segment.path, start, end)

    def _similar(self, segments: Sequence[Segment], reading: Reading) -> Iterator[Finding]:
        """What the rules of the policies say by their examples."""
        if not reading.read:
            return
        channels = [segments[read.text].channel for read in reading.read]
        for hit in self._neighbours.hits(np.stack([read.features for read in reading.read]), channels):
            read, rule = reading.read[hit.window], hit.rule
            path, window = segments[read.text].path, read.window
            decides = rule.status != "test"
            yield Finding(rule.id, rule.label, rule.score, self.name, path, window.start, window.end, decides=decides)


def _folder(settings: config.SemanticLayer) -> Path:
    return settings.model or SHIPPED[settings.engine]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, value))))
