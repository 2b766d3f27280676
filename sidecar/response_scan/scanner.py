"""Looks at what the upstream answers before it goes down, where `responses` or `answers.restore` ask for it.

A whole answer is read, looked at and then passed as it came; a stream goes through a window. What is found is
logged, counted and recorded; `responses: block` withholds the answer: in the manner of `block.style`, and in
mid-stream by an error event and a dirty end, or by a finish reason. A look that takes longer than `scan.deadline` is
none: it follows `failure.answer`, as an answer does that cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from aiohttp import web

from sidecar.config import Settings
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import AnswerBlocked, Unavailable, UpstreamError
from sidecar.extraction.extraction import Extraction
from sidecar.extraction.json_body import JsonValue
from sidecar.extraction.routes import Route, RouteKind
from sidecar.observability.metrics import ANSWERS
from sidecar.response_scan.decompression import decoded, is_known
from sidecar.response_scan.detector import Finder, Text
from sidecar.response_scan.extraction import Piece, pieces
from sidecar.response_scan.placeholders import LONGEST, Placeholders
from sidecar.response_scan.sse import Event, Unreadable, cut, dumped, loaded, read, whole_events
from sidecar.response_scan.stream_endings import Ending
from sidecar.response_scan.stream_window import Free, Window
from sidecar.server.body import THREAD_BYTES
from sidecar.server.refusals import refusal
from sidecar.server.responses import NO_RETRY, blocked_response, error_response
from sidecar.types import Action, Finding, Label, LayerName, LayerReport, Verdict
from sidecar.upstream import UpstreamResponse
from sidecar.upstream.replaced import ReplacedBody, chain_body
from sidecar.util import logs
from sidecar.util.timeouts import with_heartbeat, with_timeout

UNSEEN = "The answer cannot be looked at, so it is not passed (failure.answer)."
PAUSE = 1.0
"""Seconds of silence after which what is held back of a stream is looked at and goes."""
OUTCOME = "x-sidecar-answer"
FOUND = "x-sidecar-answer-threats"
_SPOKEN = frozenset(
    {
        "/chat/completions",
        "/chat/completions/{id}",
        "/completions",
        "/responses",
        "/responses/{id}",
        "/messages",
        "/threads/runs",
        "/threads/{id}/runs",
        "/threads/{id}/runs/{id}/submit_tool_outputs",
        "/threads/{id}/messages",
        "/threads/{id}/messages/{id}",
    }
)
"""Operations whose answers a model has written."""
MOST_TEXTS = 50_000
"""Texts in one answer; what holds more is nothing that a model has written, and counts as `failure.answer`."""
Record = Callable[[Verdict, str, int], None]
_log = logs.get("screening")


class _Late(Exception):
    """A look at a stream has taken too long; what it was about is not passed."""


class Screening:
    """Opens a `Screen` for every answer that is to be looked at."""

    def __init__(self, settings: Settings, personal: RulesLayer) -> None:
        self._settings = settings
        self._personal = personal

    async def open(
        self,
        call_id: str,
        route: Route,
        texts: Extraction,
        placeholders: Placeholders | None,
        record: Record,
        *,
        monitor: bool = False,
    ) -> Screen | None:
        """The screen for the answer to one request; None if it may pass unseen.

        Raises `Unavailable` where it could not be made ready in time, and what is not looked at is not passed.
        """
        settings = self._settings
        spoken = route.operation in _SPOKEN or route.operation in settings.inline.routes
        if not spoken and route.kind is not RouteKind.UNKNOWN:
            return None
        back = placeholders if settings.answers.restore else None
        if settings.responses == "off" and not back:
            return None
        blocks = settings.responses == "block" and not monitor
        screen = Screen(settings, call_id, route, texts.model or "", None, back, record, blocks)
        if settings.responses != "off":
            making = Finder.made(self._personal, settings.answers, texts)
            try:
                screen.finder = await with_timeout(settings.scan.deadline, making)
            except TimeoutError:
                if screen.closed:
                    raise Unavailable(UNSEEN, retry_after=1) from None
                screen.unseen = True
        return screen


@dataclass(slots=True)
class Screen:
    """Looks at one answer: `through` it, send it with `headers`, and then `settle`.

    `blocks`: what is found withholds the answer. Without a `finder` values are only put back.
    """

    settings: Settings
    call_id: str
    route: Route
    model: str
    finder: Finder | None
    placeholders: Placeholders | None
    record: Record
    blocks: bool
    found: dict[str, Finding] = field(default_factory=dict)
    unseen: bool = False
    withheld: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """What came of the look so far."""
        threats = {FOUND: ",".join(self._threats())} if self.found else {}
        return {} if self.outcome == "allow" else {OUTCOME: self.outcome} | threats

    @property
    def outcome(self) -> str:
        """One of a few words for metrics, headers and the log."""
        if self.withheld:
            return "block"
        return "flag" if self.found else "unscanned" if self.unseen else "allow"

    def settle(self, status: int) -> None:
        """Count what came of it; record it, with the status that went down, if there is something to say."""
        if self.settings.responses == "off":
            return
        ANSWERS.labels(self.outcome).inc()
        if self.outcome == "allow":
            return
        _log.warning("answer_found", decision=self.call_id, outcome=self.outcome, rules=sorted(self.found))
        self.record(self._verdict(), self.outcome, status)

    async def through(self, answer: UpstreamResponse) -> UpstreamResponse | web.Response:
        """The answer as it may go down, or another one in its place. Raises `UpstreamError` if it breaks off."""
        if not 200 <= answer.status < 300 or answer.status == 204 or answer.headers.get("Content-Length") == "0":
            return answer
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        coding = answer.headers.get("Content-Encoding", "")
        if kind == "text/event-stream" and is_known(coding):
            return ReplacedBody(answer, self._events(answer, coding), modified=True)
        if (kind == "application/json" or kind.endswith("+json")) and is_known(coding):
            return await self._whole(answer, coding)
        return self._unreadable(answer)

    async def _whole(self, answer: UpstreamResponse, coding: str) -> UpstreamResponse | web.Response:
        raw: list[bytes] = []
        chunks, size = answer.chunks(), 0
        async for chunk in chunks:
            raw.append(chunk)
            size += len(chunk)
            if size > self.settings.answers.body_bytes:
                return self._unreadable(ReplacedBody(answer, chain_body(raw, chunks)))
        try:
            document, texts = await with_timeout(self.settings.scan.deadline, self._seen(raw, coding))
        except (Unreadable, TimeoutError):
            return self._unreadable(ReplacedBody(answer, chain_body(raw)))
        except AnswerBlocked:
            return self._instead()
        if self.placeholders and _restored(texts, self.placeholders):
            return ReplacedBody(answer, chain_body([dumped(document)]), modified=True)
        return ReplacedBody(answer, chain_body(raw))

    async def _seen(self, raw: Sequence[bytes], coding: str) -> tuple[JsonValue, list[Piece]]:
        """The value and the texts in it, looked at."""
        document, texts = await _opened(await self._plain(raw, coding))
        await self._look([(piece.text, piece.path) for piece in texts])
        return document, texts

    async def _plain(self, raw: Sequence[bytes], coding: str) -> bytes:
        plain, size = [], 0
        async for piece in decoded(chain_body(raw), coding):
            plain.append(piece)
            size += len(piece)
            if size > self.settings.answers.body_bytes:
                raise Unreadable
        return b"".join(plain)

    async def _events(self, answer: UpstreamResponse, coding: str) -> AsyncIterator[bytes]:
        """The stream through the window, and the end that it gets if it is withheld."""
        ending = Ending(self.route.operation)
        try:
            async with aclosing(self._windowed(answer, coding, ending)) as parts:
                async for part in parts:
                    yield part
        except AnswerBlocked:
            last = ending.events() if self.settings.block.style == "refusal" else None
            if last is None:
                raise
            yield b"".join(last)
        except Unreadable:
            raise UpstreamError("The answer is not so compressed as its headers say.") from None
        except _Late:  # no UpstreamError before this: what was waiting would still be passed
            raise UpstreamError(UNSEEN) from None

    async def _windowed(self, answer: UpstreamResponse, coding: str, ending: Ending) -> AsyncGenerator[bytes]:
        free = await self._free(self.finder) if self.finder and self.blocks else None
        window = Window(self._look_at, self._hold(), self.placeholders, free)
        try:
            events = whole_events(decoded(answer.chunks(), coding), self.settings.answers.body_bytes)
            async with aclosing(with_heartbeat(events, PAUSE, lambda: window.waits)) as parts:
                async for data in parts:
                    async for gone in self._released(data, window, ending):
                        yield gone
        except AnswerBlocked:
            raise
        except UpstreamError:  # what came before it broke off is the client's, if it may be
            yield _sent(await window.finish(), ending)
            raise
        yield _sent(await window.finish(), ending)

    async def _released(self, data: bytes | None, window: Window, ending: Ending) -> AsyncIterator[bytes]:
        """What may go now that these events have come, or, if None, that nothing has come for a while."""
        if data is None:
            yield _sent(await window.pause(), ending)
            return
        for raw in cut(data):
            event = self._read(raw)
            if event.quiet:
                yield event.raw
                continue
            ending.heard(event.document)
            if gone := _sent(await window.add(event), ending):
                yield gone

    def _hold(self) -> int:
        least = 3 * LONGEST if self.placeholders else 0
        return max(least, self.settings.answers.hold if self.blocks else 0)

    def _read(self, raw: bytes) -> Event:
        """One event; what cannot be read passes or ends the stream, by `failure.answer`."""
        try:
            return read(raw)
        except Unreadable:
            if self.closed:
                raise UpstreamError("An event that cannot be looked at is not passed (failure.answer).") from None
            self.unseen = True
            return Event(raw)

    async def _free(self, finder: Finder) -> Free | None:
        """What need not wait; without that everything does."""
        try:
            return (await with_timeout(self.settings.scan.deadline, finder.beginnings())).free
        except TimeoutError:
            return None

    async def _look_at(self, text: str, path: str) -> None:
        try:
            await with_timeout(self.settings.scan.deadline, self._look([(text, path)]))
        except TimeoutError:
            self.unseen = True
            self.withheld = self.closed
            if self.closed:
                raise _Late from None

    async def _look(self, texts: Sequence[Text]) -> None:
        """Keep what is found; raise `AnswerBlocked` if that withholds the answer."""
        if self.finder is None or not texts:
            return
        for finding in await self.finder.findings(texts):
            self.found.setdefault(finding.rule, finding)
        if self.found and self.blocks:
            self.withheld = True
            raise AnswerBlocked(self.settings.answers.message, status=self.settings.block.status)

    @property
    def closed(self) -> bool:
        """Whether what is not looked at is not passed."""
        return self.blocks and self.settings.failure.answer == "block"

    def _unreadable(self, answer: UpstreamResponse) -> UpstreamResponse | web.Response:
        """An answer that cannot be looked at: refused, or passed and named."""
        self.unseen = True
        self.withheld = self.closed
        if not self.withheld:
            return answer
        refused = error_response(Unavailable(UNSEEN), self.route.dialect)
        refused.headers.update(NO_RETRY)
        return refused

    def _instead(self) -> web.Response:
        """The block answer in place of a whole answer."""
        settings, said = self.settings, self.settings.answers.message
        made = None
        if settings.block.style == "refusal":
            made = refusal(self.route.operation, said, decision_id=self.call_id, model=self.model, stream=False)
        block = settings.block.model_copy(update={"message": said})
        return made or blocked_response(self._verdict(), self.call_id, block, self.route.dialect)

    def _threats(self) -> list[Label]:
        return [label for label in Label if label in {finding.label for finding in self.found.values()}]

    def _verdict(self) -> Verdict:
        findings = tuple(self.found.values())
        score = max((finding.score for finding in findings), default=0.0)
        report = LayerReport(LayerName.RULES, score, findings)
        failure = "unreadable" if self.unseen and not findings else None
        action = Action.BLOCK if self.withheld else Action.ALLOW
        return Verdict(score, action, tuple(self._threats()), 0, LayerName.RULES, failure=failure, reports=(report,))


async def _opened(plain: bytes) -> tuple[JsonValue, list[Piece]]:
    """The value and the texts in it; of a large answer read beside the event loop. Raises `Unreadable`."""

    def read_all() -> tuple[JsonValue, list[Piece]]:
        document = loaded(plain)
        texts = pieces(document)
        if len(texts) > MOST_TEXTS:
            raise Unreadable
        return document, texts

    return await asyncio.to_thread(read_all) if len(plain) > THREAD_BYTES else read_all()


def _restored(texts: Iterable[Piece], placeholders: Placeholders) -> bool:
    """Put the values back; whether there were any to put."""
    hits = [piece for piece in texts if placeholders.found(piece.text)]
    for piece in hits:
        piece.put(placeholders.restore(piece.text, json=piece.json))
    return bool(hits)


def _sent(events: Iterable[Event], ending: Ending) -> bytes:
    gone = list(events)
    for event in gone:
        ending.sent(event.document)
    return b"".join(event.written() for event in gone)
