"""The shared data types: segments, findings, reports, verdicts, decisions, and dependencies.

Pure values and protocols, no I/O. A *layer* turns a `ScanRequest` into a `LayerReport`; the *engine*
merges reports into one `Verdict`; a `Decision` is a verdict with its circumstances. All scores are
floats from 0.0 (safe) to 1.0 (dangerous); all times are in seconds unless the name ends in `_ms`; all offsets
count code points of the segment's original text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Protocol, runtime_checkable

_findings_of = attrgetter("findings")


class Label(StrEnum):
    """The five threat labels of the interface specification."""

    PROMPT_INJECTION = "prompt_injection"
    JAILBREAK = "jailbreak"
    SYSTEM_PROMPT_EXTRACTION = "system_prompt_extraction"
    PII_DETECTED = "pii_detected"
    TOKEN_SMUGGLING = "token_smuggling"


class Action(StrEnum):
    """The action recommended for a prompt, or taken by the inline proxy."""

    ALLOW = "allow"
    BLOCK = "block"


class LayerName(StrEnum):
    """The detection layers, in the order in which they run."""

    RULES = "rules"
    SEMANTIC = "semantic"
    LLM_JUDGE = "llm_judge"


class Source(StrEnum):
    """The author of a segment, derived from its place in the request. Unknown places count as the user's."""

    USER = "user"
    """User turns, and every unknown role and field."""
    UNTRUSTED = "untrusted"
    """Content from outside the conversation: tool results, files, documents, search results."""
    APPLICATION = "application"
    """System and developer turns, instructions, tool definitions, response schemas."""
    MODEL = "model"
    """Assistant turns, arguments of tool calls, reasoning."""


class Channel(StrEnum):
    """How rules treat a text: addressed to the model (direct), read by it (indirect), or the application's own."""

    DIRECT = "direct"
    INDIRECT = "indirect"
    APPLICATION = "application"


SOURCE_OF = {
    Channel.DIRECT: Source.USER,
    Channel.INDIRECT: Source.UNTRUSTED,
    Channel.APPLICATION: Source.APPLICATION,
}
"""The source of a text if only its channel is known, as for examples of rules and labelled rows."""
_CHANNELS = {
    Source.USER: Channel.DIRECT,
    Source.UNTRUSTED: Channel.INDIRECT,
    Source.APPLICATION: Channel.APPLICATION,
    Source.MODEL: Channel.APPLICATION,
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One text with its source and its path in the request, such as `messages.2.content.0.text`."""

    text: str
    source: Source = Source.USER
    path: str = "prompt"
    joined: bool = field(default=False, compare=False)
    """Whether it repeats the text of other segments, joined (`sidecar.extraction.joining`)."""
    rules_only: bool = field(default=False, compare=False)
    """Whether only rules read it; other layers read its parts, which are separate segments (`extraction.framing`)."""
    pieces: tuple[tuple[int, str], ...] = field(default=(), compare=False)
    """The start offset and path of each piece of a packed segment (`sidecar.extraction.packing`)."""
    repeated: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The other paths at which its source says the same text, which is scanned once."""
    parts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The whole texts that a joined segment is made of."""
    joins: tuple[int, ...] = field(default=(), compare=False, repr=False)
    """The offsets in a joined segment at which a piece of a text begins that follows another piece."""
    definition: bool = field(default=False, compare=False)
    """Whether the application defines something there, such as a tool, and does not address the model."""
    threshold: float | None = None
    """The score from which it blocks, personal data aside, if that is lower than the threshold that else applies."""

    @property
    def channel(self) -> Channel:
        """The channel as which rules read it."""
        return _CHANNELS[self.source]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that a finding in it may have."""
        return (self.path, *(path for _, path in self.pieces))

    def path_at(self, offset: int | None) -> str:
        """The path of the text at this offset (code points): in a packed segment that of the piece."""
        if offset is None or not self.pieces:
            return self.path
        return self.pieces[max(0, bisect_right(self.pieces, offset, key=itemgetter(0)) - 1)][1]

    def path_within(self, start: int, end: int) -> str:
        """The path of the text at these offsets: of several pieces of a packed segment that which has most of it."""
        if not self.pieces:
            return self.path
        starts = [first for first, _ in self.pieces]
        ends = [*starts[1:], len(self.text)]
        shares = [min(end, last) - max(start, first) for first, last in zip(starts, ends, strict=True)]
        longest = max(range(len(shares)), key=shares.__getitem__)
        return self.pieces[longest][1] if shares[longest] > 0 else self.path_at(start)


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """The input of a layer: the segments to score, and the application's system prompt if known.

    Once a score reaches `sufficient_score` the verdict cannot change: a layer may then stop reading, which it reports
    in `SegmentReport.complete`. None: read everything. `client`: with whom others share a layer that is busy.
    """

    segments: tuple[Segment, ...]
    system_prompt: str | None = None
    model: str | None = None
    sufficient_score: float | None = None
    client: str = ""
    tools: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The tools whose results the segments are, by path; only where an exception asks for them."""

    @property
    def length(self) -> int:
        """Code points over all segments."""
        length = 0
        for segment in self.segments:
            length += len(segment.text)
        return length


@dataclass(frozen=True, slots=True)
class Finding:
    """One detection. `start` and `end` are offsets in the segment's original text, or None."""

    rule: str
    label: Label
    score: float
    layer: LayerName
    path: str
    start: int | None = None
    end: int | None = None
    view: str = "raw"
    decides: bool = True
    """Whether it can block alone. False for hints, for rules with status `test`, and if an exception applies."""
    hint: bool = False
    """Whether it counts in combination with other evidence (`sidecar.scan.fusion`). If neither: only logged."""
    digest: str = ""
    """Digest of the segment's whole text (`scan.exceptions`), set if the finding can cause a block, or could but for an
    exception."""
    fallback: bool = False
    """A hint because a model scores the same text. It decides where none does, and where such findings fill the text
    (`sidecar.scan.fallbacks`)."""
    excepted: bool = False
    """Whether it would count, had no exception been made for it."""
    evidence: str = ""
    """Figures that explain it, for `/explain`; never text of the prompt."""


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """The result of one layer for one segment, independent of the other segments.

    `complete` is False if the layer stopped before the end of the segment, because its result was certain:
    the unread text is then unknown, not harmless.
    """

    score: float
    findings: tuple[Finding, ...] = ()
    complete: bool = True
    suspicious: tuple[tuple[int, int, float], ...] = ()
    """Of the model: (start, end, score) of the places that it does not find harmless, as evidence for rules there."""


@dataclass(slots=True)
class LayerReport:
    """The result of one layer for one request, made anew for each. The engine sets `elapsed`.

    `score` is the highest deciding score, `None` if the layer failed; `failure` then names the
    cause in one snake_case word (`deadline`, `unavailable`, `error`, `budget`, ...). `detail` holds
    figures for `/explain` (windows read, cache hits), never text of the prompt. `segment_reports` holds the
    results by segment, in order; it is empty if a layer scores only the request as a whole.
    """

    layer: LayerName
    score: float | None
    findings: tuple[Finding, ...] = ()
    elapsed: float = 0.0
    failure: str | None = None
    reasoning: str | None = None
    detail: Mapping[str, float | int | str] = field(default_factory=dict)
    segment_reports: tuple[SegmentReport, ...] = ()

    @classmethod
    def from_segments(
        cls,
        layer: LayerName,
        reports: Sequence[SegmentReport],
        detail: Mapping[str, float | int | str] | None = None,
        failure: str | None = None,
    ) -> LayerReport:
        """The report on a request from the reports on its segments."""
        findings: list[Finding] = []
        scores: list[float] = []
        for report in reports:
            findings += report.findings
            scores.append(report.score)
        score = max(scores, default=0.0)
        return cls(layer, score, tuple(findings), failure=failure, detail=detail or {}, segment_reports=tuple(reports))


class Layer(Protocol):
    """A detector. It scores and never decides; the engine turns an exception into a failed report."""

    @property
    def name(self) -> LayerName:
        """The name of the layer."""
        ...

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Score the request; `prior` holds the findings of the earlier layers."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """The engine's result: the six fields of the specification, and the evidence for them.

    `failure` is the cause if the scan failed; `action` then follows the failure policy: `block` means refuse with an
    error, `allow` means forward and report it. `blocking_path` is the path of the segment that caused the block.
    """

    risk_score: float
    action: Action
    threats: tuple[Label, ...]
    latency_ms: int
    layer_used: LayerName
    reasoning: str | None = None
    failure: str | None = None
    reports: tuple[LayerReport, ...] = ()
    revision: str = ""
    blocking_path: str | None = None
    threshold: float | None = None
    """The threshold that `risk_score` was compared with; None if no layer gave a score."""
    setting: str | None = None
    """The setting that blocks although no score does: `pii`."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all layers, in the order of the layers."""
        return tuple(chain.from_iterable(map(_findings_of, self.reports)))

    @property
    def path(self) -> str | None:
        """The path of the decisive segment, which error responses name as `param`."""
        if self.blocking_path is not None:
            return self.blocking_path
        ranked = sorted((f for f in self.findings if f.decides), key=lambda f: -f.score)
        return ranked[0].path if ranked else None


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its circumstances: returned, logged, counted and stored as one record.

    `text` is empty unless `log.prompts` is set; `digest` is an HMAC, never a plain hash.
    `action` is the action taken, which under `mode: monitor` may differ from `verdict.action`.
    """

    id: str
    at: datetime
    entrypoint: str
    route: str
    verdict: Verdict
    action: str
    status: int
    key_id: str | None = None
    model: str | None = None
    length: int = 0
    segments: int = 0
    digest: str = ""
    unscanned: str | None = None
    text: str = ""
    client: str | None = None
    """The client's address as `log.client` has it."""
    outline: Sequence[Mapping[str, object]] = ()
    """The texts of the request without the texts themselves (`sidecar.decision_log.outline`)."""
    replaced: int = 0
    """Values of personal data that had been replaced before the scan (`pii: redact`)."""


@runtime_checkable
class Dependency(Protocol):
    """A part that depends on something outside this process."""

    @property
    def problem(self) -> str | None:
        """Why it cannot be used; None if it can, or if nothing is known. Without secrets and texts of clients."""
        ...

    async def probe(self) -> None:
        """Try it, if that is due and costs nothing, and note the outcome. Bounded in time; does not raise."""
        ...
