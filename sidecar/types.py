"""The types that all packages share: segments, findings, reports, verdicts, decisions.

Pure values and protocols, no I/O. A *layer* turns a `ScanRequest` into a `LayerReport`; the *engine*
turns reports into one `Verdict`; a `Decision` is a verdict with its circumstances. All scores are
floats from 0.0 (safe) to 1.0 (dangerous); all times are seconds unless a name says `_ms`; all offsets
count code points of the segment's original text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from typing import Protocol


class Label(StrEnum):
    """The five threat labels of the interface specification."""

    PROMPT_INJECTION = "prompt_injection"
    JAILBREAK = "jailbreak"
    SYSTEM_PROMPT_EXTRACTION = "system_prompt_extraction"
    PII_DETECTED = "pii_detected"
    TOKEN_SMUGGLING = "token_smuggling"


class Action(StrEnum):
    """What the scan API recommends, and the inline proxy does, with a prompt."""

    ALLOW = "allow"
    BLOCK = "block"


class LayerName(StrEnum):
    """The detection layers, in the order in which they run."""

    RULES = "rules"
    SEMANTIC = "semantic"
    LLM_JUDGE = "llm_judge"


class Source(StrEnum):
    """Who wrote a segment, as its place in the request says. What no table knows is the user's."""

    USER = "user"
    """User turns, and every unknown role and field."""
    UNTRUSTED = "untrusted"
    """What the model reads and nobody in the conversation wrote: tool results, files, documents, search results."""
    APPLICATION = "application"
    """System and developer turns, instructions, tool definitions, response schemas."""
    MODEL = "model"
    """Assistant turns, arguments of tool calls, reasoning."""


class Channel(StrEnum):
    """How a rule reads a text: as said to the model (direct), as read by it (indirect), or as its own application's."""

    DIRECT = "direct"
    INDIRECT = "indirect"
    APPLICATION = "application"


SOURCE_OF = {
    Channel.DIRECT: Source.USER,
    Channel.INDIRECT: Source.UNTRUSTED,
    Channel.APPLICATION: Source.APPLICATION,
}
"""The source of a text of which only the channel is known: of a rule's examples, of labelled rows."""
_CHANNELS = {
    Source.USER: Channel.DIRECT,
    Source.UNTRUSTED: Channel.INDIRECT,
    Source.APPLICATION: Channel.APPLICATION,
    Source.MODEL: Channel.APPLICATION,
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One text with its source and its place in the request, such as `messages.2.content.0.text`."""

    text: str
    source: Source = Source.USER
    path: str = "prompt"
    joined: bool = field(default=False, compare=False)
    """Whether it repeats other segments, read in a row (`sidecar.extraction.joining`)."""
    rules_only: bool = field(default=False, compare=False)
    """Whether the other layers read its parts instead, which are segments, too (`sidecar.extraction.framing`)."""
    pieces: tuple[tuple[int, str], ...] = field(default=(), compare=False)
    """Of a packed segment (`sidecar.extraction.packing`): the offset at which each piece begins, and its path."""

    @property
    def channel(self) -> Channel:
        """How rules read it."""
        return _CHANNELS[self.source]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that a finding in it may name."""
        return (self.path, *(path for _, path in self.pieces))

    def path_at(self, offset: int | None) -> str:
        """The path of what stands at this offset (code points): of a packed segment that of the piece."""
        if offset is None or not self.pieces:
            return self.path
        return self.pieces[max(0, bisect_right(self.pieces, offset, key=itemgetter(0)) - 1)][1]


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a layer is given: the segments to judge, and the application's system prompt if known.

    `enough` is a score from which on nothing more matters: a layer may then stop reading (and says so in
    `SegmentReport.whole`). None: everything is to be read.
    """

    segments: tuple[Segment, ...]
    system_prompt: str | None = None
    model: str | None = None
    enough: float | None = None

    @property
    def length(self) -> int:
        """Code points over all segments."""
        return sum(len(segment.text) for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason for suspicion. `start` and `end` lie inside the segment's original text, or are None."""

    rule: str
    label: Label
    score: float
    layer: LayerName
    path: str
    start: int | None = None
    end: int | None = None
    view: str = "raw"
    decides: bool = True
    """Whether it blocks alone. False for hints, for rules with status `test`, and where an exception holds."""
    hint: bool = False
    """Whether it counts together with other evidence (`sidecar.scan.fusion`). Neither: scored and logged only."""
    digest: str = ""
    """What the whole text of its segment is known by (`scan.exceptions`), where the finding is worth a block."""


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """What one layer says of one segment, whatever stands beside it.

    `whole` is False if the reading ended before the end of the segment, because of something certain:
    then what is missing is unknown, and not harmless.
    """

    score: float
    findings: tuple[Finding, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What one layer says of one request.

    `score` is the highest deciding score, `None` if the layer has no answer; `failure` then names the
    cause in one snake_case word (`deadline`, `unavailable`, `error`, `budget`, ...). `detail` holds
    figures for `/explain` (windows read, cache hits), never text of the prompt. `each` says the same
    segment by segment, in their order; it is empty where a layer judges the request as a whole.
    """

    layer: LayerName
    score: float | None
    findings: tuple[Finding, ...] = ()
    elapsed: float = 0.0
    failure: str | None = None
    reasoning: str | None = None
    detail: Mapping[str, float | int | str] = field(default_factory=dict)
    each: tuple[SegmentReport, ...] = ()

    @classmethod
    def over(
        cls, layer: LayerName, each: Sequence[SegmentReport], detail: Mapping[str, float | int | str] | None = None
    ) -> LayerReport:
        """The report on a request, from those on its segments."""
        findings = tuple(finding for report in each for finding in report.findings)
        score = max((report.score for report in each), default=0.0)
        return cls(layer, score, findings, detail=detail or {}, each=tuple(each))


class Layer(Protocol):
    """A detector. It scores and never decides; it may raise, the engine turns that into a report."""

    @property
    def name(self) -> LayerName:
        """Which of the three it is."""
        ...

    async def scan(self, request: ScanRequest, prior: Sequence[Finding]) -> LayerReport:
        """Score the request; `prior` holds what the layers before it found."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """The engine's answer: the six fields of the specification, and what they rest on.

    `failure` is the cause when no verdict could be reached ("could not scan"); `action` then follows
    the failure policy: `block` means refuse with an error, `allow` means forward and say so. `culprit` is
    the path of the segment that blocks.
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
    culprit: str | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all layers, in the order of the layers."""
        return tuple(finding for report in self.reports for finding in report.findings)

    @property
    def path(self) -> str | None:
        """The segment that weighs most: what an error answer names as `param`."""
        if self.culprit is not None:
            return self.culprit
        ranked = sorted((f for f in self.findings if f.decides), key=lambda f: -f.score)
        return ranked[0].path if ranked else None


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its circumstances: answered, logged, counted and stored as one record.

    `text` is empty unless `log.prompts` says otherwise; `digest` is an HMAC, never a plain hash.
    `action` is what was done, which under `mode: monitor` differs from `verdict.action`.
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
