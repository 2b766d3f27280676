"""Scans upstream responses before the client gets them, where `responses`, `actions` or `answers.restore` ask for it.

A complete body is read, scanned and then passed on unchanged; a stream passes through a `StreamBuffer`. Findings are
logged, counted and recorded; `responses: block` withholds the response: in the manner of `block.style`, and in
mid-stream by an error event and an unclean end, or by a finish reason. A scan that exceeds `scan.deadline`, and a
response that cannot be read, follow `failure.answer`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from sidecar.actions.judge import ActionReview, action_judge
from sidecar.config import Settings
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import ResponseBlocked, Unavailable, UpstreamError
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.routes import Route
from sidecar.observability.metrics import ANSWERS
from sidecar.protocols import PROTOCOLS, RouteKind
from sidecar.response_scan.action_gate import ActionGate
from sidecar.response_scan.action_scan import ActionScanner
from sidecar.response_scan.bodies import FRAMINGS, Framing, parse_body
from sidecar.response_scan.decompression import decoded, is_known
from sidecar.response_scan.detector import ResponseDetector, Text
from sidecar.response_scan.extraction import Piece
from sidecar.response_scan.placeholders import LONGEST, Placeholders
from sidecar.response_scan.sse import Event, Unreadable, dump_json
from sidecar.response_scan.stream_buffer import Releasable, StreamBuffer
from sidecar.response_scan.stream_terminator import StreamTerminator
from sidecar.server.refusals import refusal
from sidecar.server.responses import NO_RETRY, blocked_response, error_response
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict
from sidecar.upstream import UpstreamResponse
from sidecar.upstream.replaced import ReplacedBody, chain_body
from sidecar.util import logs
from sidecar.util.timeouts import with_heartbeat, with_timeout

UNSCANNED = "The response could not be scanned and was withheld (failure.answer)."
IDLE_SECONDS = 1.0
"""Seconds without an event after which the held events of a stream are scanned and released."""
OUTCOME_HEADER = "x-sidecar-answer"
THREATS_HEADER = "x-sidecar-answer-threats"
_OPERATIONS = """
    /chat/completions /chat/completions/{id} /completions /responses /responses/{id} /messages /threads/runs
    /threads/{id}/runs /threads/{id}/runs/{id}/submit_tool_outputs /threads/{id}/messages
    /threads/{id}/messages/{id}
"""
_GENERATING = frozenset(_OPERATIONS.split())
"""Operations whose responses are written by a model."""
Record = Callable[[Verdict, str, int], None]
_log = logs.get("screening")


class _ScanTimeout(Exception):
    """A scan exceeded its deadline; the text is withheld."""


class ResponseScannerFactory:
    """Opens a `ResponseScanner` for every response that must be scanned."""

    def __init__(self, settings: Settings, personal: RulesLayer | None) -> None:
        """`personal`: needed unless `responses` is off. Raises `PolicyError` for wrong changes of rules on actions."""
        self._settings = settings
        self._personal = personal
        self._judge = action_judge(settings)

    def review(self, document: JsonValue, verdict: Verdict, key_id: str | None) -> ActionReview | None:
        """The judge of the actions in the response to this body; None if actions are not judged."""
        if self._judge is None or not isinstance(document, dict):
            return None
        suspicious = {finding.path for finding in verdict.findings if finding.label is not Label.PII_DETECTED}
        return self._judge.review(document, suspicious, key_id)

    async def open(
        self,
        call_id: str,
        route: Route,
        texts: Extraction,
        placeholders: Placeholders | None,
        record: Record,
        *,
        monitor: bool = False,
        review: ActionReview | None = None,
    ) -> ResponseScanner | None:
        """The scanner for the response to one request; None if it may pass unscanned.

        Raises `Unavailable` if the detector is not ready in time and unscanned responses are withheld.
        """
        settings = self._settings
        served = PROTOCOLS[route.dialect]
        generated = (
            route.operation in _GENERATING | served.refusals.keys() | served.generating
            or route.operation in settings.inline.routes
        )
        if not generated and route.kind is not RouteKind.UNKNOWN:
            return None
        restoring = placeholders if settings.answers.restore else None
        if settings.responses == "off" and not restoring and review is None:
            return None
        blocks = settings.responses == "block" and not monitor
        scanner = ResponseScanner(settings, call_id, route, texts.model or "", None, restoring, record, blocks)
        if review is not None:
            scanner.actions = ActionScanner(settings, call_id, review, scanner.withhold, monitor=monitor)
        if settings.responses != "off" and self._personal is not None:
            creation = ResponseDetector.create(self._personal, settings.answers, texts)
            try:
                scanner.detector = await with_timeout(settings.scan.deadline, creation)
            except TimeoutError:
                if scanner.closes(scanner.blocks):
                    raise Unavailable(UNSCANNED, retry_after=1) from None
                scanner.unscanned = True
        return scanner


@dataclass(slots=True)
class ResponseScanner:
    """Scans one response: `process` it, send it with `headers`, then `finish`.

    `blocks`: findings of the `detector` withhold the response. Without it only placeholders and `actions` are left.
    """

    settings: Settings
    call_id: str
    route: Route
    model: str
    detector: ResponseDetector | None
    placeholders: Placeholders | None
    record: Record
    blocks: bool
    findings: dict[str, Finding] = field(default_factory=dict)
    unscanned: bool = False
    withheld: bool = False
    actions: ActionScanner | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Response headers that report the result so far."""
        threats = {THREATS_HEADER: ",".join(self._threats())} if self.findings else {}
        actions = self.actions.headers if self.actions else {}
        return {} if self.outcome == "allow" else {OUTCOME_HEADER: self.outcome} | threats | actions

    @property
    def outcome(self) -> str:
        """`block`, `flag`, `unscanned` or `allow`, for metrics, headers and the log."""
        if self.withheld:
            return "block"
        return "flag" if self.findings else "unscanned" if self.unscanned else "allow"

    def finish(self, status: int) -> None:
        """Count the outcome, and record it with the client's status unless it is `allow`."""
        if self.settings.responses == "off" and self.actions is None:
            return
        ANSWERS.labels(self.outcome).inc()
        if self.outcome == "allow":
            return
        if self.actions:
            self.actions.log()
        _log.warning("answer_found", decision=self.call_id, outcome=self.outcome, rules=sorted(self.findings))
        self.record(self._verdict(), self.outcome, status)

    async def process(self, answer: UpstreamResponse) -> UpstreamResponse | web.Response:
        """The response to send: the upstream's, or a replacement. Raises `UpstreamError` if the upstream breaks off."""
        if not 200 <= answer.status < 300 or answer.status == 204 or answer.headers.get("Content-Length") == "0":
            return answer
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        coding = answer.headers.get("Content-Encoding", "")
        framing = FRAMINGS.get(kind)
        if framing and is_known(coding):
            return ReplacedBody(answer, self._process_stream(answer, coding, framing), modified=True)
        if (kind == "application/json" or kind.endswith("+json")) and is_known(coding):
            return await self._process_body(answer, coding)
        return self.unscannable(answer)

    async def _process_body(self, answer: UpstreamResponse, coding: str) -> UpstreamResponse | web.Response:
        raw: list[bytes] = []
        chunks, size = answer.chunks(), 0
        async for chunk in chunks:
            raw.append(chunk)
            size += len(chunk)
            if size > self.settings.answers.body_bytes:
                return self.unscannable(ReplacedBody(answer, chain_body(raw, chunks)))
        try:
            document, texts = await self._scan_body(raw, coding)
        except (Unreadable, TimeoutError, _ScanTimeout):
            return self.unscannable(ReplacedBody(answer, chain_body(raw)))
        except ResponseBlocked:
            return self._block_response()
        if self.placeholders and _restore(texts, self.placeholders):
            return ReplacedBody(answer, chain_body([dump_json(document)]), modified=True)
        return ReplacedBody(answer, chain_body(raw))

    async def _scan_body(self, raw: Sequence[bytes], coding: str) -> tuple[JsonValue, list[Piece]]:
        """Parse and scan a complete body; returns the document and its texts."""
        deadline = self.settings.scan.deadline
        document, texts = await with_timeout(deadline, self._read_body(raw, coding))
        await self._scan_in_time([(piece.text, piece.path) for piece in texts])
        if self.actions:
            judgement = with_timeout(deadline, self.actions.judge_body(document, texts))
            await self._in_time(judgement, withholds=self.actions.withholds)
        return document, texts

    async def _read_body(self, raw: Sequence[bytes], coding: str) -> tuple[JsonValue, list[Piece]]:
        plain, size = [], 0
        async for piece in decoded(chain_body(raw), coding):
            plain.append(piece)
            size += len(piece)
            if size > self.settings.answers.body_bytes:
                raise Unreadable
        return await parse_body(b"".join(plain))

    async def _process_stream(self, answer: UpstreamResponse, coding: str, framing: Framing) -> AsyncIterator[bytes]:
        """The stream through the buffer, with a terminator if it is withheld."""
        terminator = StreamTerminator(self.route.operation)
        try:
            async with aclosing(self._buffered(answer, coding, framing, terminator)) as parts:
                async for part in parts:
                    yield part
        except ResponseBlocked:
            last = terminator.events() if self.settings.block.style == "refusal" else None
            if last is None:
                raise
            yield b"".join(last)
        except Unreadable:
            raise UpstreamError("The response body does not match its Content-Encoding.") from None
        except _ScanTimeout:  # raised late: an UpstreamError inside `_buffered` would release the held events
            raise UpstreamError(UNSCANNED) from None

    async def _buffered(
        self, answer: UpstreamResponse, coding: str, framing: Framing, terminator: StreamTerminator
    ) -> AsyncGenerator[bytes]:
        releasable = await self._releasable(self.detector) if self.detector and self.blocks else None
        gate = self._gate(self.actions) if self.actions else None
        buffer = StreamBuffer(
            lambda text, path: self._scan_in_time([(text, path)]), self._hold(), self.placeholders, releasable
        )
        try:
            events = framing.whole(decoded(answer.chunks(), coding), self.settings.answers.body_bytes)
            async with aclosing(with_heartbeat(events, IDLE_SECONDS, lambda: buffer.is_holding)) as parts:
                async for data in parts:
                    async for released in self._feed(data, framing, buffer, gate, terminator):
                        yield released
        except ResponseBlocked:
            raise
        except UpstreamError:  # release what arrived before the upstream broke off, once scanned
            yield _encode(await _passed(gate, await buffer.finish()), terminator)
            raise
        rest = await _passed(gate, await buffer.finish())
        yield _encode([*rest, *(await gate.finish() if gate else ())], terminator)

    def _gate(self, actions: ActionScanner) -> ActionGate:
        in_time = partial(self._in_time, withholds=actions.withholds)
        return ActionGate(
            lambda calls: in_time(actions.judge_calls(calls)),
            (lambda text, path: in_time(actions.judge_text(text, path))) if self.settings.actions.links else None,
            hold=actions.withholds,
            max_bytes=self.settings.answers.body_bytes,
        )

    async def _feed(
        self,
        data: bytes | None,
        framing: Framing,
        buffer: StreamBuffer,
        gate: ActionGate | None,
        terminator: StreamTerminator,
    ) -> AsyncIterator[bytes]:
        """Bytes to release after these events, or after a pause if `data` is None."""
        if data is None:
            yield _encode(await _passed(gate, await buffer.pause()), terminator)
            return
        for raw in framing.split(data):
            event = self._parse(raw, framing)
            if event.is_keepalive:
                yield event.raw
                continue
            terminator.observe_received(event.document)
            if released := _encode(await _passed(gate, await buffer.add(event)), terminator):
                yield released

    def _hold(self) -> int:
        least = 3 * LONGEST if self.placeholders else 0
        return max(least, self.settings.answers.hold if self.blocks else 0)

    def _parse(self, raw: bytes, framing: Framing) -> Event:
        """Parse one event; an unreadable one is passed or ends the stream, by `failure.answer`."""
        try:
            return framing.parse(raw)
        except Unreadable:
            if self.fails_closed:
                raise UpstreamError("An event could not be scanned and was withheld (failure.answer).") from None
            self.unscanned = True
            return Event(raw)

    async def _releasable(self, detector: ResponseDetector) -> Releasable | None:
        """The look-ahead; None if it is not ready in time, and then every event waits for the full hold."""
        try:
            return (await with_timeout(self.settings.scan.deadline, detector.lookahead())).releasable_prefix
        except TimeoutError:
            return None

    async def _scan_in_time(self, texts: Sequence[Text]) -> None:
        await self._in_time(with_timeout(self.settings.scan.deadline, self._scan(texts)), withholds=self.blocks)

    def withhold(self, findings: Iterable[Finding], message: str | None) -> None:
        """Store findings on actions; raise `ResponseBlocked` with the message if there is one."""
        for finding in findings:
            self.findings.setdefault(finding.rule, finding)
        if message is not None:
            self.withheld = True
            raise ResponseBlocked(message, status=self.settings.block.status)

    async def _scan(self, texts: Sequence[Text]) -> None:
        """Store the findings; raise `ResponseBlocked` if they withhold the response."""
        if self.detector is None or not texts:
            return
        for finding in await self.detector.findings(texts):
            self.findings.setdefault(finding.rule, finding)
        if self.findings and self.blocks:
            self.withhold((), self.settings.answers.message)

    async def _in_time(self, work: Awaitable[None], *, withholds: bool) -> None:
        """A scan that takes too long follows `failure.answer`, if its findings withhold the response."""
        try:
            await work
        except TimeoutError:
            self.unscanned, self.withheld = True, self.closes(withholds)
            if self.withheld:
                raise _ScanTimeout from None

    def closes(self, withholds: bool) -> bool:
        """Whether a response that could not be scanned is withheld, where findings would withhold it."""
        return withholds and self.settings.failure.answer == "block"

    @property
    def fails_closed(self) -> bool:
        """Whether a response that cannot be read is withheld."""
        return self.closes(self.blocks or (self.actions is not None and self.actions.withholds))

    def unscannable(self, answer: UpstreamResponse) -> UpstreamResponse | web.Response:
        """The result for a response that cannot be scanned: an error, or the response itself marked `unscanned`."""
        self.unscanned = True
        self.withheld = self.fails_closed
        if not self.withheld:
            return answer
        withheld_response = error_response(Unavailable(UNSCANNED), self.route.dialect)
        withheld_response.headers.update(NO_RETRY)
        return withheld_response

    def _block_response(self) -> web.Response:
        """The block answer in place of a complete response."""
        settings, operation = self.settings, self.route.operation
        message = (self.actions and self.actions.message) or settings.answers.message
        completion = None
        if settings.block.style == "refusal":
            is_list = operation in PROTOCOLS[self.route.dialect].streaming  # of chunks, as Google streams JSON
            completion = refusal(
                operation, message, decision_id=self.call_id, model=self.model, stream=is_list, events=False
            )
        block = settings.block.model_copy(update={"message": message})
        return completion or blocked_response(self._verdict(), self.call_id, block, self.route.dialect)

    def _threats(self) -> list[Label]:
        return [label for label in Label if label in {finding.label for finding in self.findings.values()}]

    def _verdict(self) -> Verdict:
        findings = tuple(self.findings.values())
        score = max((finding.score for finding in findings), default=0.0)
        report = LayerReport(LayerName.RULES, score, findings)
        failure = "unreadable" if self.unscanned and not findings else None
        action = Action.BLOCK if self.withheld else Action.ALLOW
        return Verdict(score, action, tuple(self._threats()), 0, LayerName.RULES, failure=failure, reports=(report,))


def _restore(texts: Iterable[Piece], placeholders: Placeholders) -> bool:
    """Restore the placeholders; returns whether there were any."""
    hits = [piece for piece in texts if placeholders.find_all(piece.text)]
    for piece in hits:
        piece.replace(placeholders.restore(piece.text, json=piece.json))
    return bool(hits)


async def _passed(gate: ActionGate | None, events: list[Event]) -> list[Event]:
    return await gate.pass_on(events) if gate else events


def _encode(events: Iterable[Event], terminator: StreamTerminator) -> bytes:
    released = list(events)
    for event in released:
        terminator.observe_sent(event.document)
    return b"".join(event.encode() for event in released)
