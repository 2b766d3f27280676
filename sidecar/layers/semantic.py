"""The semantic layer: a small trained model reads the whole text in overlapping windows.

The score is the calibrated probability that the worst window of the worst segment is an attack; labels
share it by how likely each of them is in that window. `similar_to` rules of the policies are answered on
the same embedding. Text over the budget of windows is refused (`too_long`), never cut short in silence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sidecar import config
from sidecar.layers.artefact import SHIPPED, Artefact
from sidecar.layers.embedding import open_encoder
from sidecar.layers.inference import Read, Reader, Reading, Text
from sidecar.layers.similar import Neighbours, SimilarRule
from sidecar.layers.windows import Cut
from sidecar.types import Channel, Finding, Label, LayerName, LayerReport, ScanRequest, Segment

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
        score = max((f.score for f in findings if f.decides), default=0.0)
        calm = max((self._probability(reading, read) for read in self._worst(reading)), default=0.0)
        detail = {"windows": sum(part.windows for part in reading.parts), "windows_read": len(reading.read)}
        return LayerReport(self.name, max(score, calm), findings, detail=detail)

    def _worst(self, reading: Reading) -> list[Read]:
        """The worst window of each part that has any."""
        worst: dict[int, Read] = {}
        for read in reading.read:
            known = worst.get(read.part)
            if known is None or read.logits[self._head.attack] > known.logits[self._head.attack]:
                worst[read.part] = read
        return list(worst.values())

    def _probability(self, reading: Reading, read: Read) -> float:
        windows = reading.parts[read.part].windows
        return self._manifest.calibration.probability(float(read.logits[self._head.attack]), windows)

    def _trained(self, segments: Sequence[Segment], reading: Reading) -> Iterator[Finding]:
        """The labels of each part's worst window; the likeliest has the whole score."""
        for worst in self._worst(reading):
            score = self._probability(reading, worst)
            if score < FLOOR:
                continue
            chances = {label: _sigmoid(float(worst.logits[row])) for label, row in self._head.labels.items()}
            if reading.parts[worst.part].view.hidden:
                chances[Label.TOKEN_SMUGGLING] = max(chances.values())
            top = max(chances.values())
            for label, chance in sorted(chances.items(), key=lambda pair: -pair[1]):
                if (shared := score * chance / top) >= FLOOR:
                    yield self._finding(segments, reading, worst, f"SEM-{label}", label, shared)

    def _similar(self, segments: Sequence[Segment], reading: Reading) -> Iterator[Finding]:
        """What the rules of the policies say by their examples."""
        if not reading.read:
            return
        channels = [segments[reading.parts[read.part].text].channel for read in reading.read]
        for hit in self._neighbours.hits(np.stack([read.features for read in reading.read]), channels):
            rule, read = hit.rule, reading.read[hit.window]
            found = self._finding(segments, reading, read, rule.id, rule.label, rule.score)
            yield replace(found, decides=rule.status != "test")

    def _finding(
        self, segments: Sequence[Segment], reading: Reading, read: Read, rule: str, label: Label, score: float
    ) -> Finding:
        part = reading.parts[read.part]
        start, end = part.view.locate(read.window.start, read.window.end)
        return Finding(rule, label, score, self.name, segments[part.text].path, start, end, part.view.name)


def _folder(settings: config.SemanticLayer) -> Path:
    return settings.model or SHIPPED[settings.engine]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, value))))
