"""The inline door: classify the route, read once, scan, then forward or refuse.

The spine of every request is `_serve`. Whatever happens, one decision is recorded, and every answer,
the upstream's too, carries the verdict headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from aiohttp import web

from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError, RateLimited, RequestError, Unauthorized, Unavailable, UpstreamError
from sidecar.extraction import routes
from sidecar.extraction.routes import Route, RouteKind
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.observability.metrics import REDACTED, REFUSED
from sidecar.proxy.exchange import Call
from sidecar.proxy.history import MOST_PASSES, without_refused
from sidecar.proxy.redaction import Redactor
from sidecar.proxy.relay import relay
from sidecar.proxy.request_body import EMPTY, Intake
from sidecar.proxy.websockets import Sockets
from sidecar.response_scan.scanner import ResponseScanner, ResponseScannerFactory
from sidecar.scan.engine import Engine
from sidecar.scan.selection import select
from sidecar.scan.service import ScanOutcome, ScanService
from sidecar.server.body import RESERVATION
from sidecar.server.caller import API_KEY
from sidecar.server.headers import is_websocket, sidecar_key
from sidecar.server.middleware import Gatekeeper, new_decision_id
from sidecar.server.reasons import refusal_message
from sidecar.server.refusals import refusal
from sidecar.server.responses import DECISION_ID, DIALECT, TOO_SUSPICIOUS, blocked_response, error_response
from sidecar.server.server import SHUTTING_DOWN, was_cut
from sidecar.types import Action, Finding, Label, LayerName, ScanRequest, Verdict
from sidecar.upstream import Upstream, UpstreamResponse
from sidecar.util import by_model, logs

CLIENT_CLOSED = 499
CLIENT_PATIENCE = 60.0
"""Seconds that a client may take nothing of its answer, however long the upstream may be silent."""
_log = logs.get("proxy")


class Proxy:
    """Handles every request of the data port that is not the sidecar's own."""

    def __init__(
        self,
        engine: Engine,
        decision_log: DecisionLog,
        upstream: Upstream,
        settings: Settings,
        gatekeeper: Gatekeeper,
        personal: RulesLayer | None = None,
        vocabularies: Vocabularies = NO_VOCABULARIES,
    ) -> None:
        """`personal`: the rules about personal data, where the settings look for it beside the scan."""
        self._scans = ScanService(engine, decision_log, settings)
        self._upstream = upstream
        self._settings = settings
        self._gatekeeper = gatekeeper
        self._intake = Intake(settings, vocabularies)
        self._sockets: Sockets | None = None
        if settings.inline.websockets:
            judge, refuse, most = self._judge_event, self._refuse_event, settings.limits.body_bytes
            self._sockets = Sockets(upstream, judge, refuse, self._record, most=most)
        self._redactor: Redactor | None = None
        self._screening: ResponseScannerFactory | None = None
        if personal is not None:
            self._screening = ResponseScannerFactory(settings, personal)
            self._redactor = Redactor(personal) if settings.pii == "redact" else None

    def serves(self, request: web.Request) -> bool:
        """Whether the settings name this route, even where the sidecar's own paths begin."""
        try:
            return self._classify(request).kind is not RouteKind.UNKNOWN
        except RequestError:
            return False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request. Only unforeseen errors leave this method."""
        call = Call(request, request[DECISION_ID])
        try:
            return await self._serve(call)
        except RequestError as error:
            return self._refused(call, error)
        except asyncio.CancelledError:
            if was_cut(call.request) and not call.answered:
                # What was forwarded was allowed, and the upstream may be at work.
                ended = (
                    UpstreamError(SHUTTING_DOWN, status=504) if call.sent else Unavailable(SHUTTING_DOWN, retry_after=1)
                )
                return self._refused(call, ended)
            _log.info("client_closed", decision=call.id)
            self._record(call, CLIENT_CLOSED)
            raise

    async def _serve(self, call: Call) -> web.StreamResponse:
        call.route = self._classify(call.request)
        call.request[DIALECT] = call.dialect
        await self._admit(call.request)
        if self._sockets is not None and call.route.kind is RouteKind.WEBSOCKET and is_websocket(call.request.headers):
            outgoing = call.outgoing(call.route, plain=False)
            return await self._sockets.serve(call, replace(outgoing, model=call.request.query.get("model")))
        call.payload = await self._intake.read(call.request, call.route)
        if self._redactor is not None and not self._monitors(call):
            await self._redact(call, call.route, self._redactor)
        await self._scan(call, call.route)
        if call.outcome.blocked:
            return self._blocked(call)
        return await self._forward(call, call.route)

    def _classify(self, request: web.Request) -> Route:
        inline = self._settings.inline
        return routes.classify(request.method, request.raw_path, prefixes=inline.prefixes, extra=inline.routes)

    async def _admit(self, request: web.Request) -> None:
        key = sidecar_key(request.headers)
        if key is not None or self._settings.auth.inline == "required":
            await self._gatekeeper.admit(request, key)
        self._scans.admit()

    def _monitors(self, call: Call) -> bool:
        return self._scans.monitors(call.request.get(API_KEY))

    async def _judge_event(self, call: Call, message: str | bytes) -> None:
        """Scan a message of a websocket, and decide. Each is admitted by itself, as a request is."""
        if call.route is None:
            return
        await self._admit(call.request)
        opened_for = call.request.query.get("model")
        try:
            call.payload = await self._intake.read_event(call.request, call.route, message, opened_for)
            if self._upstream_of(call.texts.model) != self._upstream_of(opened_for):
                raise BodyError("malformed", "This model is another upstream's than the websocket was opened for.")
            await self._scan(call, call.route)
        finally:
            call.request[RESERVATION].shrink(0)

    def _upstream_of(self, model: str | None) -> int:
        """Which of the settings' upstreams serves a model."""
        others = {name: at for at, (name, terms) in enumerate(self._settings.models.items(), 1) if terms.upstream}
        return by_model.find(others, model) or 0

    def _refuse_event(self, call: Call, error: RequestError | None) -> web.Response:
        """The answer to a message that does not go up: an error in any case, since nobody reads a refusal there."""
        if error is not None:
            return self._refused(call, error)
        block, said = (
            self._settings.block,
            refusal_message(self._settings.block.message, call.outcome.verdict, call.id, call.payload.document),
        )
        answer = blocked_response(call.outcome.verdict, call.id, block, call.dialect, said)
        self._record(call, answer.status)
        return answer

    async def _redact(self, call: Call, route: Route, redactor: Redactor) -> None:
        """Put names in place of personal data: what is scanned from here on is what goes up."""
        names = await redactor.redact(call.payload.document) if call.payload.document is not None else None
        if names:
            call.payload, call.names = self._intake.rewrite(route, call.payload, call.payload.document), names
            REDACTED.inc(len(names))

    async def _scan(self, call: Call, route: Route) -> None:
        """Scan the texts and decide. Raises `RequestError` if they could not be scanned and the policy is closed."""
        verdict, unscanned = await self._judge(call)
        monitored = self._monitors(call)
        is_turns = route.kind is not RouteKind.WEBSOCKET  # a message of a websocket holds the last turn alone
        if is_turns and self._settings.history == "strip" and not monitored:
            verdict = await self._strip(call, route, verdict)
        if any(self._objectionable(call, verdict)):
            verdict = replace(verdict, action=Action.BLOCK)
        if call.names:
            threats = {*verdict.threats, Label.PII_DETECTED}
            verdict = replace(verdict, threats=tuple(label for label in Label if label in threats))
        closed = self._intake.closed(call.payload.unscanned) if monitored else None
        names = (*call.payload.unscanned, *unscanned)
        call.outcome = self._scans.decide(verdict, names, monitored=monitored, closed=closed)
        if call.outcome.failure:
            raise _unscannable(call.outcome.failure)

    def _objectionable(self, call: Call, verdict: Verdict) -> Iterator[Finding]:
        """Personal data that `pii` does not let through: any, or what stands where it could not be replaced."""
        setting = self._settings.pii
        if setting == "flag" or verdict.failure is not None:
            return
        places = {path for segment in call.segments for path in segment.paths}
        for finding in verdict.findings:
            if (
                finding.label is Label.PII_DETECTED
                and finding.decides
                and (setting == "block" or finding.path in places)
            ):
                yield finding

    async def _judge(self, call: Call) -> tuple[Verdict, tuple[str, ...]]:
        """The verdict on the texts, and the sources that no layer reads."""
        chosen = select(self._settings, call.texts)
        call.segments = tuple(segment for segment in chosen.request.segments if not segment.joined)
        request = chosen.request if call.segments else ScanRequest(())
        return await self._scans.scan(request, call.context), chosen.unscanned

    async def _strip(self, call: Call, route: Route, first: Verdict) -> Verdict:
        """Leave refused turns out until the rest is clean; if that fails, the first verdict stands."""
        verdict, payload, segments, removed = first, call.payload, call.segments, 0
        for _ in range(MOST_PASSES):
            if verdict.failure is not None or verdict.action is Action.ALLOW:
                break
            shorter = without_refused(call.payload.document, verdict, self._settings.scan.threshold)
            if shorter is None:
                break
            call.payload = self._intake.rewrite(route, call.payload, shorter[0])
            (verdict, _), removed = await self._judge(call), removed + shorter[1]
        if verdict.failure is None and verdict.action is Action.ALLOW:
            call.stripped = removed
            return verdict
        call.payload, call.segments = payload, segments
        return first

    def _blocked(self, call: Call) -> web.Response:
        block = self._settings.block
        said = refusal_message(block.message, call.outcome.verdict, call.id, call.payload.document)
        answer = None
        if block.style == "refusal" and call.route is not None:
            answer = refusal(
                call.route.operation,
                said,
                decision_id=call.id,
                model=call.model or "",
                stream=call.texts.stream,
            )
        answer = answer or blocked_response(call.outcome.verdict, call.id, block, call.dialect, said)
        answer.headers.update(call.headers)
        self._record(call, answer.status)
        return answer

    async def _forward(self, call: Call, route: Route) -> web.StreamResponse:
        screen = await self._screen(call, route)
        call.lighten()
        call.sent = True
        async with self._upstream.send(call.outgoing(route, plain=screen is not None)) as answer:
            call.answered = True
            self._record(call, answer.status)
            # A stream may last for minutes: what the request held need not.
            call.payload, call.segments = EMPTY, ()
            call.request[RESERVATION].shrink(0)
            return await self._pass_down(call, answer, screen)

    async def _pass_down(
        self, call: Call, answer: UpstreamResponse, screen: ResponseScanner | None
    ) -> web.StreamResponse:
        """The answer as it comes; or through the screen, which may put another in its place."""
        patience, dialect = min(self._settings.upstream.idle_timeout, CLIENT_PATIENCE), call.dialect
        keepalive = self._settings.answers.keepalive
        send = partial(relay, call.request, dialect=dialect, patience=patience, keepalive=keepalive)
        if screen is None:
            return await send(answer, call.headers)
        status = answer.status
        try:
            made = await screen.process(answer)
            headers = call.headers | screen.headers
            if isinstance(made, web.Response):
                made.headers.update(headers)
                status = made.status
                return made
            return await send(made, headers)
        finally:
            screen.finish(status)

    async def _screen(self, call: Call, route: Route) -> ResponseScanner | None:
        """What looks at the answer, if anything is to."""
        if self._screening is None or call.request.method == "HEAD":
            return None
        context, model = replace(call.context, entrypoint="answer"), call.model

        def record(verdict: Verdict, action: str, status: int) -> None:
            own = replace(context, decision=new_decision_id())
            self._scans.record(own, ScanOutcome(verdict, action), status, model=model)

        monitor = self._monitors(call)
        return await self._screening.open(call.id, route, call.texts, call.names, record, monitor=monitor)

    def _refused(self, call: Call, error: RequestError) -> web.Response:
        """An error of our own. What the upstream failed at was allowed; everything else was not."""
        if not isinstance(error, UpstreamError):
            verdict = call.outcome.verdict
            if verdict.failure is None:
                verdict = Verdict(0.0, Action.BLOCK, (), 0, LayerName.RULES, failure=_cause(error))
            call.outcome = replace(call.outcome, verdict=verdict, action="block", unscanned=None)
        REFUSED.labels("inline", str(error.status)).inc()
        # Who has no valid key could otherwise fill the scan log.
        if not isinstance(error, Unauthorized | RateLimited):
            self._record(call, error.status)
        answer = error_response(error, call.dialect)
        answer.headers.update(call.headers)
        return answer

    def _record(self, call: Call, status: int) -> None:
        """Record the decision, once."""
        if call.recorded:
            return
        call.recorded = True
        self._scans.record(call.context, call.outcome, status, call.segments, call.model)


def _unscannable(cause: str) -> RequestError:
    """The error for a scan that could not be done, closed by policy."""
    if cause == "overload":
        return Unavailable("The scanner is busy.", retry_after=1)
    if cause == "too_long":
        return BodyError("oversize", "The text is longer than the scanner reads.", status=413)
    if cause == "budget":
        return BodyError("budget", TOO_SUSPICIOUS, status=413)
    return Unavailable(f"The prompt could not be scanned ({cause}).", retry_after=1)


def _cause(error: RequestError) -> str:
    return error.kind if isinstance(error, BodyError) else error.code
