"""The semantic layer: small trained models score the whole text in windows.

The score is the calibrated probability that the worst window of the worst segment is an attack; labels share it in
proportion to their probability in that window. `similar_to` rules of the policies use the same embedding. If suspicious
windows are left when the budget ends, the report says so (`failure`: `budget`).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sidecar import config
from sidecar.detectors.semantic.artifact import DEFINITION, LONG_PROMPT, SHIPPED, Array, ModelArtifact
from sidecar.detectors.semantic.batcher import Batcher, BatchResult, ScoredWindow
from sidecar.detectors.semantic.cascade import CascadeScorer
from sidecar.detectors.semantic.nearest_neighbours import NearestNeighbours, SimilarRule
from sidecar.detectors.semantic.texts import ChannelText
from sidecar.detectors.semantic.topics import Topics
from sidecar.normalization.vocabulary import english
from sidecar.types import Channel, Finding, Label, LayerName, LayerReport, ScanRequest, Segment, SegmentReport, Source

MIN_FINDING_SCORE = 0.1
"""Findings below this score are not reported."""
TOKEN_TYPES = {Channel.DIRECT: 0, Channel.INDIRECT: 1, Channel.APPLICATION: 2}
"""The token type that encodes the author of a text."""
MIN_SUSPICIOUS_SCORE = 0.015
"""Windows from this score are evidence for hits of rules: below it none of them reaches a threshold of 0.6."""
MIN_LONG = 150
"""Characters from which the application's prompts and definitions have calibrations of their own. "Pays with the stored
card." is all of a definition, and reads like an order to the assistant."""
MAX_DEFINITION = 4_000
"""Characters up to which a definition counts as one. In longer manuals, such as those of coding agents (19 kB), one of
many windows reads like an order."""
MAX_INLINE_SEGMENTS = 64
"""Segments whose reports are built on the event loop."""


class SemanticLayer:
    """A `Layer`. Create it with `load` (blocking, off the event loop) and end it with `close`."""

    name = LayerName.SEMANTIC

    def __init__(
        self, artifact: ModelArtifact, batcher: Batcher, neighbours: NearestNeighbours, topics: Topics
    ) -> None:
        self._manifest, self._head = artifact.manifest, artifact.head
        self._batcher, self._neighbours, self._topics = batcher, neighbours, topics
        self._fingerprint = hashlib.sha256(artifact.manifest.model_dump_json().encode()).hexdigest()

    @classmethod
    def load(cls, settings: config.SemanticLayer, rules: Sequence[SimilarRule] = ()) -> SemanticLayer:
        """Read the model and embed the examples of the rules. Raises `ModelError` that names the file."""
        artifact = ModelArtifact.read(_folder(settings))
        manifest = artifact.manifest
        english().build()
        scorer = CascadeScorer.open(artifact, settings.threads, early_exit=all(rule.topic for rule in rules))
        batcher = Batcher(
            scorer,
            budget=settings.budget,
            probability=lambda logit, channel: manifest.calibration_for(channel).probability(logit),
        )
        examples = (rules, scorer.encoder, manifest)
        return cls(artifact, batcher, NearestNeighbours(*examples), Topics(*examples))

    @property
    def fingerprint(self) -> str:
        """Changes with everything that changes its results except the rules: model, head, calibration and settings."""
        return self._fingerprint

    async def close(self) -> None:
        """End the worker thread; waiting scans fail."""
        await self._batcher.close()

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Score every segment completely. Raises `LayerError` on failure."""
        spans = spans_by_path(prior)
        texts = [
            ChannelText(s.text, channel_of(s), hits(s, spans), self._topics.windows_of(s)) for s in request.segments
        ]
        result = await self._batcher.score(texts, request.sufficient_score, request.client)
        if len(texts) <= MAX_INLINE_SEGMENTS:
            return self._report(request, result)
        return await asyncio.to_thread(self._report, request, result)

    def _report(self, request: ScanRequest, result: BatchResult) -> LayerReport:
        embedded = (result.embedded.get(number) for number in range(len(request.segments)))
        rows = zip(request.segments, result.by_text(), embedded, result.pending_counts, strict=True)
        reports = [
            self._segment_report(segment, windows, features, complete=not pending)
            for segment, windows, features, pending in rows
        ]
        pending = sum(result.pending_counts)
        early_exits = sum(result.window_counts) - sum(window.by_second_stage for window in result.scored) - pending
        detail = {"windows": sum(result.window_counts), "windows_settled": early_exits, "windows_left": pending}
        report = LayerReport.from_segments(self.name, reports, detail)
        return replace(report, failure="budget") if pending and not result.stopped_early else report

    def _segment_report(
        self, segment: Segment, windows: Sequence[ScoredWindow], embedded: Sequence[Array] | None, *, complete: bool
    ) -> SegmentReport:
        """`embedded`: None if no topics were compared; a report that lacks them must not be cached."""
        complete = complete and (embedded is not None or not self._topics.windows_of(segment))
        worst = self._worst(windows)
        probabilities = [self._batcher.probability(window, channel_of(segment)) for window in worst]
        classified = (
            finding
            for window, probability in zip(worst, probabilities, strict=True)
            for finding in self._classifier_findings(segment, window, probability)
        )
        similar = self._similarity_findings(segment, windows)
        findings = (*classified, *similar, *self._topic_findings(segment, embedded or ()))
        score = max([0.0, *probabilities, *(finding.score for finding in findings if finding.decides)])
        return SegmentReport(score, findings, complete, tuple(self._suspicious(segment, windows)))

    def _suspicious(self, segment: Segment, windows: Sequence[ScoredWindow]) -> Iterator[tuple[int, int, float]]:
        """The windows that are not harmless, of the text and of what was encoded in it."""
        for window in windows:
            probability = self._batcher.probability(window, channel_of(segment))
            if probability >= MIN_SUSPICIOUS_SCORE:
                yield *window.source.locate(window.start, window.end), probability

    def _worst(self, windows: Sequence[ScoredWindow]) -> list[ScoredWindow]:
        """The worst window of the visible text, and of its decoded content."""
        worst: dict[bool, ScoredWindow] = {}
        for window in windows:
            current = worst.get(window.source.view.hidden)
            if current is None or window.logits[self._head.attack] > current.logits[self._head.attack]:
                worst[window.source.view.hidden] = window
        return list(worst.values())

    def _classifier_findings(self, segment: Segment, window: ScoredWindow, score: float) -> Iterator[Finding]:
        """The labels of a window; the most probable one has the whole score."""
        if score < MIN_FINDING_SCORE:
            return
        probabilities = {label: _sigmoid(float(window.logits[row])) for label, row in self._head.labels.items()}
        if window.source.view.hidden:
            probabilities[Label.TOKEN_SMUGGLING] = max(probabilities.values())
        highest = max(probabilities.values())
        for label, probability in sorted(probabilities.items(), key=lambda pair: -pair[1]):
            if (label_score := score * probability / highest) >= MIN_FINDING_SCORE:
                yield _finding(segment, window, f"SEM-{label}", label, label_score)

    def _similarity_findings(self, segment: Segment, windows: Sequence[ScoredWindow]) -> Iterator[Finding]:
        """Findings of `similar_to` rules: if there are any, the second stage scores every window."""
        embedded = [(window, window.features) for window in windows if window.features is not None]
        if not embedded:
            return
        for hit in self._neighbours.hits(
            np.stack([features for _, features in embedded]), [segment.channel] * len(embedded)
        ):
            finding = _finding(segment, embedded[hit.window][0], hit.rule.id, hit.rule.label, hit.rule.score)
            yield replace(finding, decides=hit.rule.status == "block", hint=hit.rule.status == "hint")

    def _topic_findings(self, segment: Segment, embedded: Sequence[Array]) -> Iterator[Finding]:
        for hit in self._topics.hits(embedded):
            place, status = (segment.path, 0, len(segment.text)), hit.rule.status
            finding = Finding(hit.rule.id, hit.rule.label, hit.rule.score, self.name, *place, evidence=hit.evidence)
            yield replace(finding, decides=status == "block", hint=status == "hint")


def channel_of(segment: Segment) -> int:
    """The channel as which the model reads a segment."""
    if segment.source is not Source.APPLICATION or len(segment.text) < MIN_LONG:
        return TOKEN_TYPES[segment.channel]
    return DEFINITION if segment.definition and len(segment.text) <= MAX_DEFINITION else LONG_PROMPT


def spans_by_path(prior: Sequence[Finding]) -> dict[str, list[tuple[int, int]]]:
    """The spans of `fallback` hits by their path.

    Several texts may share a path: a span of another one only costs time.
    """
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for finding in prior:
        if finding.fallback and finding.hint and finding.start is not None and finding.end is not None:
            spans[finding.path].append((finding.start, finding.end))
    return spans


def hits(segment: Segment, spans: Mapping[str, Sequence[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """The spans on a segment, in order and disjoint."""
    if not spans:
        return ()
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for path in segment.paths if path in spans for span in spans[path]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _finding(segment: Segment, window: ScoredWindow, rule: str, label: Label, score: float) -> Finding:
    start, end = window.source.locate(window.start, window.end)
    place = (segment.path_within(start, end), start, end, window.source.view.name)
    return Finding(rule, label, score, LayerName.SEMANTIC, *place)


def _folder(settings: config.SemanticLayer) -> Path:
    return settings.model or SHIPPED[settings.engine]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, value))))
