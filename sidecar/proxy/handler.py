"""The inline proxy: classify the route, read once, scan, then forward or refuse.

`_serve` is the main path of every request. Exactly one decision is recorded, and every response, including the
upstream's, carries the verdict headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial

from aiohttp import web

from sidecar.attachments.reader import NO_ATTACHMENTS, AttachmentReader
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError, RateLimited, RequestError, Unauthorized, Unavailable, UpstreamError
from sidecar.extraction import routes
from sidecar.extraction.dialect_fields import fields_of
from sidecar.extraction.routes import Route
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.extraction.tool_names import tool_names
from sidecar.limits.memory_budget import SMALL_BODY
from sidecar.observability.metrics import REDACTED, REFUSED
from sidecar.protocols import RouteKind
from sidecar.proxy.exchange import Carrier, Exchange
from sidecar.proxy.history import MAX_PASSES, strip_refused_turns
from sidecar.proxy.redaction import Redactor
from sidecar.proxy.relay import relay
from sidecar.proxy.request_body import EMPTY, RequestReader
from sidecar.proxy.spotlighting import UntrustedSetting, mark, unmarked_texts
from sidecar.proxy.websockets import WebSocketProxy
from sidecar.response_scan.scanner import ResponseScanner, ResponseScannerFactory
from sidecar.scan.engine import Engine
from sidecar.scan.known_values import application_values
from sidecar.scan.selection import Selector
from sidecar.scan.service import ScanOutcome, ScanService
from sidecar.server.body import RESERVATION, run_off_loop
from sidecar.server.caller import API_KEY
from sidecar.server.headers import KEY_PREFIX, is_websocket
from sidecar.server.middleware import Gatekeeper, new_decision_id
from sidecar.server.reasons import refusal_message
from sidecar.server.receipts import RECEIPT
from sidecar.server.refusals import refusal
from sidecar.server.responses import DECISION_ID, DIALECT, TOO_SUSPICIOUS, blocked_response, error_response
from sidecar.server.server import SHUTTING_DOWN, was_cut
from sidecar.types import Action, Label, LayerName, ScanRequest, Verdict
from sidecar.upstream import Upstream, UpstreamRequest, UpstreamResponse
from sidecar.util import by_model, logs

CLIENT_CLOSED = 499
CLIENT_WRITE_TIMEOUT = 60.0
"""Seconds after which a client that does not read its response is disconnected, whatever the upstream's timeout."""
Send = Callable[[UpstreamRequest], AbstractAsyncContextManager[UpstreamResponse]]
_log = logs.get("proxy")


class Proxy:
    """Handles every request of the data port that is not for the sidecar's own routes."""

    def __init__(
        self,
        engine: Engine,
        decision_log: DecisionLog,
        upstream: Upstream | None,
        settings: Settings,
        gatekeeper: Gatekeeper,
        pii_rules: RulesLayer | None = None,
        vocabularies: Vocabularies = NO_VOCABULARIES,
        attachments: AttachmentReader = NO_ATTACHMENTS,
    ) -> None:
        """`upstream`: None answers an allowed request with an empty 200.

        `pii_rules`: the rules for personal data, if the settings redact requests or scan responses with them.
        """
        self._scans = ScanService(engine, settings, decision_log)
        self._upstream = upstream
        self._settings, self._selector = settings, Selector(settings)
        self._gatekeeper = gatekeeper
        self._reader = RequestReader(settings, vocabularies, attachments)
        self._websockets: WebSocketProxy | None = None
        if settings.inline.websockets and upstream is not None:
            scan, refuse, max_bytes = self._scan_event, self._refuse_event, settings.limits.body_bytes
            self._websockets = WebSocketProxy(upstream, scan, refuse, self._record, max_bytes=max_bytes)
        self._redactor: Redactor | None = None
        self._response_scanners: ResponseScannerFactory | None = None
        if pii_rules is not None or settings.actions.mode != "off":
            self._response_scanners = ResponseScannerFactory(settings, pii_rules)
        if pii_rules is not None:
            self._redactor = Redactor(pii_rules) if settings.pii == "redact" else None

    def serves(self, request: web.Request) -> bool:
        """Whether the settings define this route, even under a path prefix of the sidecar."""
        try:
            return self._classify(request).kind is not RouteKind.UNKNOWN
        except RequestError:
            return False

    async def handle(self, request: web.Request, carrier: Carrier | None = None) -> web.StreamResponse:
        """Answer one request, carried by `carrier` if there is one. Raises only unexpected errors."""
        proxies, header = self._settings.listen.trusted_proxies, self._settings.gateway.header
        exchange = Exchange(
            request, request[DECISION_ID], trusted_proxies=proxies, profile_header=header, carrier=carrier
        )
        try:
            return await self._serve(exchange)
        except RequestError as error:
            return self._error_response(exchange, error)
        except asyncio.CancelledError:
            if was_cut(exchange.request) and not exchange.has_response:
                # A forwarded request was allowed, and the upstream may still be working on it.
                if exchange.is_forwarded:
                    return self._error_response(exchange, UpstreamError(SHUTTING_DOWN, status=504))
                return self._error_response(exchange, Unavailable(SHUTTING_DOWN, retry_after=1))
            _log.info("client_closed", decision=exchange.id)
            self._record(exchange, CLIENT_CLOSED)
            raise

    async def _serve(self, exchange: Exchange) -> web.StreamResponse:
        route = exchange.route = self._classify(exchange.request)
        exchange.request[DIALECT] = route.dialect
        await self._admit(exchange.request)
        if exchange.request.query_string:
            exchange.query = self._reader.read_query(exchange.request)
        is_socket = route.kind is RouteKind.WEBSOCKET and is_websocket(exchange.request.headers)
        if self._websockets is not None and is_socket:
            if exchange.query != EMPTY:
                await self._scan(exchange, route)
                if exchange.outcome.blocked:
                    return self._block_response(exchange)
            upstream_request = exchange.upstream_request(route, uncompressed=False)
            model = exchange.request.query.get("model")
            return await self._websockets.serve(exchange, replace(upstream_request, model=model))
        exchange.body = await self._reader.read(exchange.request, route)
        if isinstance(exchange.body.content, bytes) and len(exchange.body.content) > SMALL_BODY:
            await self._gatekeeper.charge(exchange.request, len(exchange.body.content))
        # In a signed body nothing is replaced, and `apply_pii_setting` refuses what was not.
        if self._redactor is not None and not exchange.is_signed and not self._monitors(exchange):
            await self._redact(exchange, route, self._redactor)
        await self._scan(exchange, route)
        if exchange.outcome.blocked:
            return self._block_response(exchange)
        if self._settings.untrusted != "forward" and not self._monitors(exchange):
            await self._mark(exchange, route, self._settings.untrusted)
        send = self._sender(exchange)
        return self._allow_response(exchange) if send is None else await self._forward(exchange, route, send)

    def _classify(self, request: web.Request) -> Route:
        inline = self._settings.inline
        if KEY_PREFIX in request.query_string:
            raise BodyError("path", "The query holds a key of the sidecar: send it in a header field.")
        return routes.classify(request.method, request.raw_path, prefixes=inline.prefixes, extra=inline.routes)

    async def _admit(self, request: web.Request) -> None:
        await self._gatekeeper.admit_inline(request)
        self._scans.admit()

    def _monitors(self, exchange: Exchange) -> bool:
        return self._scans.monitors(exchange.request.get(API_KEY))

    async def _scan_event(self, exchange: Exchange, message: str | bytes) -> None:
        """Scan a websocket message and decide. Each message is admitted separately, like a request."""
        if exchange.route is None:
            return
        await self._admit(exchange.request)
        socket_model = exchange.request.query.get("model")
        try:
            exchange.body = await self._reader.read_event(exchange.request, exchange.route, message, socket_model)
            await self._gatekeeper.charge(exchange.request, len(message))
            if self._upstream_index(exchange.body.texts.model) != self._upstream_index(socket_model):
                raise BodyError("malformed", "This model is another upstream's than the websocket was opened for.")
            await self._scan(exchange, exchange.route)
        finally:
            exchange.request[RESERVATION].shrink(0)

    def _upstream_index(self, model: str | None) -> int:
        """The position of the configured upstream that serves a model; 0 is the default upstream."""
        upstreams = {
            name: index
            for index, (name, model_settings) in enumerate(self._settings.models.items(), 1)
            if model_settings.upstream
        }
        return by_model.find(upstreams, model) or 0

    def _refuse_event(self, exchange: Exchange, error: RequestError | None) -> web.Response:
        """The response to a refused message: always an error, since websocket clients do not read refusals."""
        if error is not None:
            return self._error_response(exchange, error)
        block, verdict = self._settings.block, exchange.outcome.verdict
        message = refusal_message(block.message, verdict, exchange.id, exchange.body.document)
        response = blocked_response(verdict, exchange.id, block, exchange.dialect, message)
        self._record(exchange, response.status)
        return response

    async def _redact(self, exchange: Exchange, route: Route, redactor: Redactor) -> None:
        """Replace personal data with placeholders, so that the scanned text is the text sent upstream."""
        if exchange.body.document is None:
            return
        known = application_values(exchange.body.texts.segments)
        placeholders = await redactor.redact(exchange.body.document, known, fields_of(route.dialect))
        if placeholders:
            exchange.body = await self._reader.rewrite(exchange.request, route, exchange.body, exchange.body.document)
            exchange.placeholders = placeholders
            REDACTED.inc(len(placeholders))

    async def _mark(self, exchange: Exchange, route: Route, setting: UntrustedSetting) -> None:
        """Mark the untrusted texts of the allowed request. Raises `BodyError` if one cannot be and must be."""
        body, keeps = exchange.body, self._settings.actions.mode != "off"
        if isinstance(body.content, bytes) and body.document is not None and not exchange.is_signed:
            content, exchange.marks = await mark(body.content, body.document, route, setting, keeps)
            exchange.body = replace(body, content=content, decoded=body.decoded or content is not body.content)
        else:
            exchange.marks = unmarked_texts(body.texts.segments)
        if exchange.marks.unmarked and self._settings.failure.unmarked == "block":
            raise BodyError("unmarked", "A third party's text cannot be marked here (failure.unmarked).", status=422)

    async def _scan(self, exchange: Exchange, route: Route) -> None:
        """Scan the texts and decide. Raises `RequestError` if they could not be scanned and the policy blocks that."""
        verdict, unscanned = await self._scan_texts(exchange)
        monitored = self._monitors(exchange)
        has_history = route.kind is not RouteKind.WEBSOCKET  # a websocket message holds only the last turn
        strips = has_history and self._settings.history == "strip" and not exchange.is_signed
        if strips and not monitored:
            verdict = await self._strip(exchange, route, verdict)
        if exchange.placeholders:
            threats = {*verdict.threats, Label.PII_DETECTED}
            verdict = replace(verdict, threats=tuple(label for label in Label if label in threats))
        unread = (*exchange.query.unscanned, *exchange.body.unscanned)
        blocked_kind = self._reader.first_blocked(unread) if monitored else None
        unscanned_names = tuple(dict.fromkeys((*unread, *unscanned)))
        exchange.outcome = self._scans.decide(verdict, unscanned_names, monitored=monitored, closed=blocked_kind)
        if exchange.outcome.failure:
            raise _scan_failure_error(exchange.outcome.failure)

    async def _scan_texts(self, exchange: Exchange) -> tuple[Verdict, tuple[str, ...]]:
        """The verdict on the texts, and the sources that no layer reads."""
        texts, query = exchange.body.texts, exchange.query.texts.segments
        request, unscanned = self._selector.select(texts, query, document=exchange.body.document)
        exchange.segments = request.segments
        if exchange.body.texts.joined:
            exchange.segments = tuple(segment for segment in exchange.segments if not segment.joined)
        verdict = await self._scans.scan(request if exchange.segments else ScanRequest(()), exchange.context)
        exchange.tools = {}
        if verdict.threats and isinstance(raw := exchange.body.content, bytes):
            exchange.tools = await run_off_loop(raw, tool_names, exchange.body.document)
        return verdict, unscanned

    async def _strip(self, exchange: Exchange, route: Route, original_verdict: Verdict) -> Verdict:
        """Remove refused turns until the rest is allowed; if that fails, restore the body and the original verdict.

        Invariant: the body is forwarded only if its own last scan allowed it.
        """
        verdict, body, segments, stripped_turns = original_verdict, exchange.body, exchange.segments, 0
        for _ in range(MAX_PASSES):
            if verdict.failure is not None or verdict.action is Action.ALLOW:
                break
            stripped = strip_refused_turns(exchange.body.document, verdict, self._settings.scan.threshold)
            if stripped is None:
                break
            exchange.body = await self._reader.rewrite(exchange.request, route, exchange.body, stripped[0])
            (verdict, _), stripped_turns = await self._scan_texts(exchange), stripped_turns + stripped[1]
        if verdict.failure is None and verdict.action is Action.ALLOW:
            exchange.stripped_turns = stripped_turns
            return verdict
        exchange.body, exchange.segments = body, segments
        return original_verdict

    def _block_response(self, exchange: Exchange) -> web.Response:
        block = self._settings.block
        message = refusal_message(block.message, exchange.outcome.verdict, exchange.id, exchange.body.document)
        response = None
        if block.style == "refusal" and exchange.route is not None:
            response = refusal(
                exchange.route.operation,
                message,
                decision_id=exchange.id,
                model=exchange.model or "",
                stream=exchange.body.texts.stream,
                events=exchange.takes_events,
            )
        response = response or blocked_response(exchange.outcome.verdict, exchange.id, block, exchange.dialect, message)
        response.headers.update(exchange.headers)
        self._record(exchange, response.status)
        return response

    def _allow_response(self, exchange: Exchange) -> web.Response:
        self._record(exchange, 200)
        return web.Response(headers=exchange.headers)

    def _sender(self, exchange: Exchange) -> Send | None:
        """How an allowed request goes to the model; None if it is only answered."""
        if exchange.carrier is not None:
            return partial(exchange.carrier.send, verdict_headers=exchange.headers)
        return self._upstream.send if self._upstream is not None else None

    async def _forward(self, exchange: Exchange, route: Route, send: Send) -> web.StreamResponse:
        scanner = await self._open_response_scanner(exchange, route)
        is_read_later = scanner is not None and scanner.actions is not None  # the review of actions holds the document
        if not is_read_later:
            exchange.release_document()
        exchange.is_forwarded = True
        async with send(exchange.upstream_request(route, uncompressed=scanner is not None)) as response:
            exchange.has_response = True
            self._record(exchange, response.status)
            # A stream may last for minutes: release the memory of the request.
            exchange.body, exchange.segments = EMPTY, ()
            if not is_read_later:
                exchange.request[RESERVATION].shrink(0)
            return await self._send_response(exchange, response, scanner)

    async def _send_response(
        self, exchange: Exchange, response: UpstreamResponse, scanner: ResponseScanner | None
    ) -> web.StreamResponse:
        """Relay the response as it arrives, or through the scanner, which may replace it."""
        write_timeout, dialect = min(self._settings.upstream.idle_timeout, CLIENT_WRITE_TIMEOUT), exchange.dialect
        keepalive = self._settings.answers.keepalive
        carry = relay if exchange.carrier is None else exchange.carrier.relay
        send = partial(carry, exchange.request, dialect=dialect, write_timeout=write_timeout, keepalive=keepalive)
        if scanner is None:
            return await send(response, exchange.headers)
        status = response.status
        try:
            is_shown = exchange.carrier is None or exchange.carrier.shows_responses
            scanned_response = await scanner.process(response) if is_shown else scanner.unscannable(response)
            headers = exchange.headers | scanner.headers
            if isinstance(scanned_response, web.Response):
                scanned_response.headers.update(headers)
                status = scanned_response.status
                return scanned_response
            return await send(scanned_response, headers)
        finally:
            scanner.finish(status)

    async def _open_response_scanner(self, exchange: Exchange, route: Route) -> ResponseScanner | None:
        """The scanner for the response, or None if the settings do not scan it."""
        if self._response_scanners is None or exchange.request.method == "HEAD":
            return None
        context, model = replace(exchange.context, entrypoint="answer"), exchange.model

        def record(verdict: Verdict, action: str, status: int) -> None:
            response_context = replace(context, decision=new_decision_id())
            self._scans.record(response_context, ScanOutcome(verdict, action), status, model=model)

        monitor, texts, placeholders = self._monitors(exchange), exchange.body.texts, exchange.placeholders
        key_id = context.key.id if context.key else None
        review = self._response_scanners.review(exchange.body.document, exchange.outcome.verdict, key_id)
        scanner = await self._response_scanners.open(
            exchange.id, route, texts, placeholders, record, monitor=monitor, review=review
        )
        if scanner and scanner.fails_closed and exchange.carrier and not exchange.carrier.shows_responses:
            raise Unavailable(
                "The gateway does not send the bodies of responses, which must be scanned.", retry_after=1
            )
        return scanner

    def _error_response(self, exchange: Exchange, error: RequestError) -> web.Response:
        """An error response of the sidecar. Only requests that failed at the upstream count as allowed."""
        if not isinstance(error, UpstreamError):
            verdict = exchange.outcome.verdict
            if verdict.failure is None:
                verdict = Verdict(0.0, Action.BLOCK, (), 0, LayerName.RULES, failure=_failure_cause(error))
            exchange.outcome = replace(exchange.outcome, verdict=verdict, action="block", unscanned=None)
        REFUSED.labels("inline", str(error.status)).inc()
        # Otherwise clients without a valid key could fill the scan log.
        if not isinstance(error, Unauthorized | RateLimited):
            self._record(exchange, error.status)
        response = error_response(error, exchange.dialect)
        response.headers.update(exchange.headers)
        return response

    def _record(self, exchange: Exchange, status: int) -> None:
        """Record the decision, once."""
        if exchange.is_recorded:
            return
        exchange.is_recorded = True
        content = exchange.segments, exchange.model, exchange.tools, exchange.replaced
        receipt = self._scans.record(exchange.context, exchange.outcome, status, *content)
        if receipt is not None:
            exchange.request[RECEIPT] = receipt


def _scan_failure_error(cause: str) -> RequestError:
    """The error for a request that could not be scanned and that the policy blocks."""
    if cause == "overload":
        return Unavailable("The scanner is busy.", retry_after=1)
    if cause == "too_long":
        return BodyError("oversize", "The text is longer than the scanner reads.", status=413)
    if cause == "budget":
        return BodyError("budget", TOO_SUSPICIOUS, status=413)
    return Unavailable(f"The prompt could not be scanned ({cause}).", retry_after=1)


def _failure_cause(error: RequestError) -> str:
    return error.kind if isinstance(error, BodyError) else error.code
