"""The inline door: classify the route, read once, scan, then forward or refuse.

The spine of every request is `_serve`. Whatever happens, one decision is recorded, and every answer,
the upstream's too, carries the verdict headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from aiohttp import web

from sidecar import logs
from sidecar.bodies import routes
from sidecar.bodies.extraction import Extraction
from sidecar.bodies.routes import Route
from sidecar.config import Settings
from sidecar.engine import Engine
from sidecar.errors import BodyError, RateLimited, RequestError, Unauthorized, Unavailable, UpstreamError
from sidecar.journal import Journal
from sidecar.metrics import REFUSED
from sidecar.types import Action, Decision, LayerName, Role, ScanRequest, Segment, Verdict
from sidecar.upstream import Outgoing, Upstream
from sidecar.web.answers import (
    DECISION_ID,
    DIALECT,
    KEY_ID,
    STRIPPED,
    blocked_response,
    error_response,
    verdict_headers,
)
from sidecar.web.caller import caller, monitors
from sidecar.web.headers import own_key, upward
from sidecar.web.history import MOST_PASSES, without_refused
from sidecar.web.intake import Intake, Payload
from sidecar.web.middleware import Gatekeeper
from sidecar.web.refusals import refusal
from sidecar.web.relay import relay

CLIENT_CLOSED = 499
_NOTHING_FOUND = Verdict(0.0, Action.ALLOW, (), 0, LayerName.RULES)
_log = logs.get("proxy")


@dataclass(slots=True)
class _Call:
    """One request, as far as it is known by now."""

    request: web.Request
    id: str
    route: Route | None = None
    payload: Payload = field(default_factory=lambda: Payload(b""))
    segments: tuple[Segment, ...] = ()
    verdict: Verdict = _NOTHING_FOUND
    action: str = "allow"
    unscanned: str | None = None
    stripped: int = 0
    recorded: bool = False

    @property
    def texts(self) -> Extraction:
        return self.payload.texts or Extraction()

    @property
    def dialect(self) -> str:
        return self.route.dialect if self.route else "openai"

    @property
    def headers(self) -> dict[str, str]:
        headers = verdict_headers(self.id, self.action, self.verdict, self.unscanned)
        return headers | {STRIPPED: str(self.stripped)} if self.stripped else headers


class Proxy:
    """Handles every request of the data port that is not the sidecar's own."""

    def __init__(
        self, engine: Engine, journal: Journal, upstream: Upstream, settings: Settings, gatekeeper: Gatekeeper
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._upstream = upstream
        self._settings = settings
        self._gatekeeper = gatekeeper
        self._intake = Intake(settings)
        self._roles = {Role.USER, Role.TOOL, Role.OTHER, *(Role(role) for role in settings.inline.scan_roles)}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request. Only unforeseen errors leave this method."""
        call = _Call(request, request[DECISION_ID])
        try:
            return await self._serve(call)
        except RequestError as error:
            return self._refused(call, error)
        except asyncio.CancelledError:
            _log.info("client_closed", decision=call.id)
            self._record(call, CLIENT_CLOSED)
            raise

    async def _serve(self, call: _Call) -> web.StreamResponse:
        call.route = self._classify(call.request)
        call.request[DIALECT] = call.dialect
        await self._admit(call.request)
        call.payload = await self._intake.read(call.request, call.route)
        await self._scan(call, call.route)
        if call.action == "block":
            return self._blocked(call)
        return await self._forward(call, call.route)

    def _classify(self, request: web.Request) -> Route:
        inline = self._settings.inline
        return routes.classify(request.method, request.raw_path, prefixes=inline.prefixes, extra=inline.routes)

    async def _admit(self, request: web.Request) -> None:
        key = own_key(request.headers)
        if key is not None or self._settings.auth.inline == "required":
            await self._gatekeeper.admit(request, key)
        if not self._journal.healthy:
            raise Unavailable("The scan log cannot be written (log.required).", retry_after=5)

    async def _scan(self, call: _Call, route: Route) -> None:
        """Scan what there is to scan, and decide."""
        call.verdict = await self._judge(call)
        if self._settings.history == "strip" and not monitors(call.request, self._settings):
            await self._strip(call, route)
        call.unscanned = ",".join(call.payload.unscanned) or None
        self._decide(call)

    async def _judge(self, call: _Call) -> Verdict:
        texts = call.texts
        call.segments = self._chosen(texts.segments)
        if not call.segments:
            return _NOTHING_FOUND
        wanted = ScanRequest((*call.segments, *self._chosen(texts.joined)), texts.system_prompt, texts.model)
        return await self._engine.scan(wanted, caller(call.request))

    def _chosen(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        return tuple(segment for segment in segments if segment.role in self._roles)

    async def _strip(self, call: _Call, route: Route) -> None:
        """Leave refused turns out until the rest is clean; if that fails, the first verdict stands."""
        first, removed = replace(call), 0
        for _ in range(MOST_PASSES):
            if call.verdict.failure is not None or call.verdict.action is Action.ALLOW:
                break
            shorter = without_refused(call.payload.document, call.verdict, self._settings.scan.threshold)
            if shorter is None:
                break
            call.payload = self._intake.rewrite(route, shorter[0])
            call.verdict, removed = await self._judge(call), removed + shorter[1]
        if call.verdict.failure is not None or call.verdict.action is Action.BLOCK:
            call.payload, call.segments, call.verdict = first.payload, first.segments, first.verdict
        else:
            call.stripped = removed

    def _decide(self, call: _Call) -> None:
        """From the verdict and the mode to what is done."""
        verdict, monitor = call.verdict, monitors(call.request, self._settings)
        if verdict.failure is not None:
            if verdict.action is Action.BLOCK and not monitor:
                raise _unscannable(verdict.failure)
            call.unscanned = verdict.failure
        elif verdict.action is Action.BLOCK:
            call.action = "monitor" if monitor else "block"
            call.unscanned = call.unscanned if monitor else None  # what is refused does not go up

    def _blocked(self, call: _Call) -> web.Response:
        block = self._settings.block
        answer = None
        if block.style == "refusal" and call.route is not None:
            answer = refusal(
                call.route.operation,
                block.message,
                decision_id=call.id,
                model=call.texts.model or "",
                stream=call.texts.stream,
            )
        answer = answer or blocked_response(call.verdict, call.id, block, call.dialect)
        answer.headers.update(call.headers)
        self._record(call, answer.status)
        return answer

    async def _forward(self, call: _Call, route: Route) -> web.StreamResponse:
        patience = self._settings.upstream.idle_timeout
        async with self._upstream.send(_outgoing(call, route)) as answer:
            self._record(call, answer.status)
            # A stream may last for minutes: what the request held need not.
            call.payload, call.segments = Payload(b""), ()
            return await relay(call.request, answer, call.headers, dialect=call.dialect, patience=patience)

    def _refused(self, call: _Call, error: RequestError) -> web.Response:
        """An error of our own. What the upstream failed at was allowed; everything else was not."""
        if not isinstance(error, UpstreamError):
            call.action = "block"
            call.unscanned = None
            if call.verdict.failure is None:
                call.verdict = Verdict(0.0, Action.BLOCK, (), 0, LayerName.RULES, failure=_cause(error))
        REFUSED.labels("inline", str(error.status)).inc()
        # Who has no valid key could otherwise fill the scan log.
        if not isinstance(error, Unauthorized | RateLimited):
            self._record(call, error.status)
        answer = error_response(error, call.dialect)
        answer.headers.update(call.headers)
        return answer

    def _record(self, call: _Call, status: int) -> None:
        """Record the decision, once."""
        if call.recorded:
            return
        call.recorded = True
        text = "\n".join(segment.text for segment in call.segments)
        self._journal.record(
            Decision(
                id=call.id,
                at=datetime.now(UTC),
                door="inline",
                route=call.request.raw_path.partition("?")[0],
                verdict=call.verdict,
                action=call.action,
                status=status,
                key_id=call.request.get(KEY_ID),
                model=call.texts.model,
                length=len(text),
                segments=len(call.segments),
                digest=self._journal.digest(text),
                unscanned=call.unscanned,
                text=self._journal.text_for_log(call.segments, call.verdict),
            )
        )


def _outgoing(call: _Call, route: Route) -> Outgoing:
    """The request as it goes up. A body that streams keeps the length that the client announced, if it did."""
    request, payload = call.request, call.payload
    headers = upward(request.headers, decoded=payload.decoded)
    if not isinstance(payload.body, bytes) and request.content_length is not None:
        headers["Content-Length"] = str(request.content_length)
    return Outgoing(request.method, route.path, headers, payload.body or None, _credential_header(route))


def _unscannable(cause: str) -> RequestError:
    """The error for a scan that could not be done, closed by policy."""
    if cause == "overload":
        return Unavailable("The scanner is busy.", retry_after=1)
    if cause == "too_long":
        return BodyError("oversize", "The text is longer than the scanner reads (layers.semantic.windows).", status=413)
    return Unavailable(f"The prompt could not be scanned ({cause}).", retry_after=1)


def _cause(error: RequestError) -> str:
    return error.kind if isinstance(error, BodyError) else error.code


def _credential_header(route: Route) -> str:
    """Where the API of this route expects the upstream's key."""
    if route.dialect == "anthropic":
        return "X-API-Key"
    return "Api-Key" if route.prefix.startswith("/openai/deployments/") else "Authorization"
