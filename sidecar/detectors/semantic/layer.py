"""The semantic layer: small trained models read the whole text in windows.

The score is the calibrated probability that the worst window of the worst segment is an attack; labels share it by how
likely each of them is in that window. `similar_to` rules of the policies are answered on the same embedding. If windows
are left over that looked suspicious when the budget ended, the report says so (`failure`: `budget`).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sidecar import config
from sidecar.detectors.semantic.artifact import SHIPPED, Artefact
from sidecar.detectors.semantic.batcher import Read, Reader, Reading, Text
from sidecar.detectors.semantic.cascade import Scorer
from sidecar.detectors.semantic.nearest_neighbours import Neighbours, SimilarRule
from sidecar.types import Channel, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport

FLOOR = 0.1
"""Findings below this score say nothing worth a line."""
CHANNELS = {Channel.DIRECT: 0, Channel.INDIRECT: 1, Channel.APPLICATION: 2}
"""The token type by which the model knows who wrote a text."""
FEW = 64
"""Segments whose reports are put together on the event loop."""


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
            budget=settings.budget,
            chance=lambda logit, channel: manifest.calibration_of(channel).probability(logit),
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
        texts = [Text(s.text, CHANNELS[s.channel]) for s in request.segments]
        reading = await self._reader.read(texts, request.enough)
        if len(texts) <= FEW:
            return self._report(request, reading)
        return await asyncio.to_thread(self._report, request, reading)

    def _report(self, request: ScanRequest, reading: Reading) -> LayerReport:
        facts = zip(request.segments, reading.by_text(), reading.unsettled, strict=True)
        each = [self._segment(segment, reads, whole=not left) for segment, reads, left in facts]
        left = sum(reading.unsettled)
        settled = sum(reading.windows) - sum(read.second for read in reading.read) - left
        detail = {"windows": sum(reading.windows), "windows_settled": settled, "windows_left": left}
        report = LayerReport.over(self.name, each, detail)
        return replace(report, failure="budget") if left and not reading.enough else report

    def _segment(self, segment: Segment, reads: Sequence[Read], *, whole: bool) -> SegmentReport:
        worst = self._worst(reads)
        chances = [self._reader.probability(read, CHANNELS[segment.channel]) for read in worst]
        trained = (f for read, chance in zip(worst, chances, strict=True) for f in self._trained(segment, read, chance))
        findings = (*trained, *self._similar(segment, reads))
        score = max([0.0, *chances, *(f.score for f in findings if f.decides)])
        return SegmentReport(score, findings, whole)

    def _worst(self, reads: Sequence[Read]) -> list[Read]:
        """The worst window of what stands in the text, and of what was decoded from it."""
        worst: dict[bool, Read] = {}
        for read in reads:
            known = worst.get(read.part.view.hidden)
            if known is None or read.logits[self._head.attack] > known.logits[self._head.attack]:
                worst[read.part.view.hidden] = read
        return list(worst.values())

    def _trained(self, segment: Segment, read: Read, score: float) -> Iterator[Finding]:
        """The labels of a window; the likeliest has the whole score."""
        if score < FLOOR:
            return
        chances = {label: _sigmoid(float(read.logits[row])) for label, row in self._head.labels.items()}
        if read.part.view.hidden:
            chances[Label.TOKEN_SMUGGLING] = max(chances.values())
        top = max(chances.values())
        for label, chance in sorted(chances.items(), key=lambda pair: -pair[1]):
            if (shared := score * chance / top) >= FLOOR:
                yield _finding(segment, read, f"SEM-{label}", label, shared)

    def _similar(self, segment: Segment, reads: Sequence[Read]) -> Iterator[Finding]:
        """What the rules of the policies say by their examples: where there are any, the second stage reads all."""
        found = [(read, read.features) for read in reads if read.features is not None]
        if not found:
            return
        for hit in self._neighbours.hits(np.stack([features for _, features in found]), [segment.channel] * len(found)):
            made = _finding(segment, found[hit.window][0], hit.rule.id, hit.rule.label, hit.rule.score)
            yield replace(made, decides=hit.rule.status == "block", hint=hit.rule.status == "hint")


def _finding(segment: Segment, read: Read, rule: str, label: Label, score: float) -> Finding:
    start, end = read.part.locate(read.start, read.end)
    place = (segment.path_at(start), start, end, read.part.view.name)
    return Finding(rule, label, score, LayerName.SEMANTIC, *place)


def _folder(settings: config.SemanticLayer) -> Path:
    return settings.model or SHIPPED[settings.engine]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, value))))
