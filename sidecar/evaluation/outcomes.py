"""Scans units as the endpoints do, and keeps each unit's verdicts, cause, and the source of the text that decided."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sidecar.config import Settings
from sidecar.errors import BodyError
from sidecar.evaluation import conversations
from sidecar.evaluation.conversations import Body
from sidecar.evaluation.rows import Row
from sidecar.extraction import json_body
from sidecar.extraction.extraction import extract
from sidecar.extraction.token_ids import Vocabularies
from sidecar.scan.selection import Selector
from sidecar.types import Action, LayerName, ScanRequest, Verdict
from sidecar.util import json

Scan = Callable[[ScanRequest], Awaitable[Verdict]]
"""`ScanService.scan`: the use case of every entry point."""


CHECK_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """A unit with its verdict; `elapsed` in seconds.

    `verdict` is that of the request that decided: the first refused, else the first that could not be scanned, else the
    one with the highest score. `request_verdicts` holds those of all requests of a conversation, in order. `said_by` is
    the source of the text that was refused.
    """

    row: Row
    verdict: Verdict
    elapsed: float
    request_verdicts: tuple[Verdict, ...] = ()
    said_by: str = ""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of all its requests."""
        return self.request_verdicts or (self.verdict,)

    @property
    def blocked(self) -> bool:
        """Whether it was scanned, and the recommended action was `block`."""
        return is_refused(self.verdict)

    @property
    def unscanned(self) -> bool:
        """Whether it could not be scanned (and was not refused for another of its requests)."""
        return self.verdict.failure is not None

    @property
    def wrong(self) -> bool:
        """Whether an attack passed or a benign unit was refused; one that could not be scanned is neither."""
        return not self.unscanned and ((self.row.attack and not self.blocked) or (self.row.benign and self.blocked))

    @property
    def cause(self) -> str | None:
        """The failure, or the highest-scoring rule at the place that was refused."""
        return cause(self.verdict)

    def line(self) -> dict[str, object]:
        """The line that `--out` writes for this unit: no text."""
        refused = self.blocked or self.unscanned
        return {
            "id": self.row.id,
            "check": check(self.row.content),
            "label": "attack" if self.row.attack else "benign" if self.row.benign else None,
            "risk_score": self.verdict.risk_score,
            "action": self.verdict.action,
            "threats": list(self.verdict.threats),
            "layer_used": self.verdict.layer_used,
            "latency_ms": round(self.elapsed * 1000, 3),
            "failure": self.verdict.failure,
            "cause": self.cause,
            "path": self.verdict.path if refused else None,
            "source": self.said_by or None,
            "requests": len(self.verdicts),
            "refused": sum(map(is_refused, self.verdicts)),
            "unscanned": sum(verdict.failure is not None for verdict in self.verdicts),
        }


def check(text: str) -> str:
    """Tells two texts with one id apart, nearly always; of a text it is too little to find it out by guessing."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:CHECK_DIGITS]


def is_refused(verdict: Verdict) -> bool:
    """Whether the content was refused; a failed scan does not count."""
    return verdict.failure is None and verdict.action is Action.BLOCK


def cause(verdict: Verdict) -> str | None:
    """The failure, or the rule (`SEM-<label>` of the model) behind a refusal; None if there was none."""
    if verdict.failure is not None or not is_refused(verdict):
        return verdict.failure
    deciding = [finding for finding in verdict.findings if finding.decides]
    at_path = [finding for finding in deciding if finding.path == verdict.path] or deciding
    return max(at_path, key=lambda finding: finding.score).rule if at_path else str(verdict.layer_used)


class UnitScanner:
    """Scans units one request after another. `growing`: every request of a conversation, as a client sends them."""

    def __init__(self, scan: Scan, settings: Settings, *, growing: bool = False) -> None:
        self._scan = scan
        self._settings, self._selector = settings, Selector(settings)
        self._growing = growing
        self._vocabularies = Vocabularies(settings.inline.vocabularies)

    async def outcome(self, row: Row) -> Outcome:
        """Scan one unit."""
        started = time.perf_counter()
        if row.body is None:
            answers = [await self._scan_request(row.request())]
        else:
            answers = [await self._scan_body(body, row.operation) for body in row.requests(growing=self._growing)]
        elapsed = time.perf_counter() - started
        verdict, said_by = _decisive(answers)
        return Outcome(row, verdict, elapsed, tuple(verdict for verdict, _ in answers), said_by)

    async def _scan_body(self, body: Body, operation: str) -> tuple[Verdict, str]:
        """The verdict of the inline proxy on one body, and the source of the text that decided."""
        try:
            request = self._read(body, operation)
        except BodyError as error:
            return Verdict(0.0, Action.BLOCK, (), 0, LayerName.RULES, failure=error.kind, blocking_path=error.param), ""
        return await self._scan_request(request)

    def _read(self, body: Body, operation: str) -> ScanRequest:
        raw, limits = json.dumps(body), self._settings.limits
        if len(raw) > limits.body_bytes:
            raise BodyError("oversize", "The body is larger than limits.body_bytes.")
        document = json_body.parse(raw, depth=limits.depth)
        extraction = self._vocabularies.decode_prompts(extract(document, operation, conversations.dialect(operation)))
        for part in extraction.unscannable:
            if getattr(self._settings.failure.input, part.kind) == "block":
                raise BodyError(part.kind, "The body holds what cannot be scanned.", param=part.path)
        return self._selector.select(extraction, document=document).request

    async def _scan_request(self, request: ScanRequest) -> tuple[Verdict, str]:
        verdict = await self._scan(request)
        return verdict, _source(request, verdict.path) if is_refused(verdict) else ""


def _decisive(answers: list[tuple[Verdict, str]]) -> tuple[Verdict, str]:
    for decides in (is_refused, lambda verdict: verdict.failure is not None):
        if decisive := next((answer for answer in answers if decides(answer[0])), None):
            return decisive
    return max(answers, key=lambda answer: answer[0].risk_score)


def _source(request: ScanRequest, path: str | None) -> str:
    return next((str(segment.source) for segment in request.segments if path in segment.paths), "")
