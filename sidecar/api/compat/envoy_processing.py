"""Envoy's `ext_proc`: the inline proxy, with Envoy as the upstream and as the connection to the client.

From the documentation of Envoy 1.40 (`service/ext_proc/v3`). One stream is one request: its headers and body are read
and scanned as those of the inline proxy, and go on with placeholders or without refused turns where the settings say
so; the response comes back through the same scanner. Routes, roles, keys, the failure policy and the log are those of
the inline proxy. `envoy_direction` says what the modes of the bodies permit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from sidecar.api.compat.envoy import prefixed_settings
from sidecar.api.compat.envoy_direction import (
    WHOLE,
    BodyMode,
    Direction,
    Line,
    header_changes,
    header_map,
    without_pseudo,
)
from sidecar.attachments.reader import NO_ATTACHMENTS, AttachmentReader
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.detectors.rules.layer import RulesLayer
from sidecar.errors import BodyError, Unavailable, UpstreamError
from sidecar.extraction.token_ids import NO_VOCABULARIES, Vocabularies
from sidecar.proxy.handler import Proxy
from sidecar.proxy.relay import body_chunks, error_event, is_event_stream, write_chunks
from sidecar.scan.engine import Engine
from sidecar.server.body import Oversize
from sidecar.server.headers import client_headers
from sidecar.server.middleware import Gatekeeper
from sidecar.server.responses import DECISION_ID, error_response
from sidecar.upstream import UpstreamRequest, UpstreamResponse
from sidecar.util import logs
from sidecar.util.timeouts import with_timeout

LAST_EVENT_SECONDS = 1.0
CUT_SECONDS = 0.05
"""Between the last event and the reset, with which Envoy drops what it has not sent yet."""
ENDED = "Envoy ended the stream."
_log = logs.get("envoy")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds until the headers of a response come, and between the pieces of its body."""

    first_byte: float
    idle: float


class ExtProc:
    """Handles the requests of streams under these settings."""

    def __init__(
        self,
        engine: Engine,
        decision_log: DecisionLog,
        gatekeeper: Gatekeeper,
        settings: Settings,
        pii_rules: RulesLayer | None = None,
        vocabularies: Vocabularies = NO_VOCABULARIES,
        attachments: AttachmentReader = NO_ATTACHMENTS,
    ) -> None:
        self._proxy = Proxy(
            engine, decision_log, None, prefixed_settings(settings), gatekeeper, pii_rules, vocabularies, attachments
        )

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve the stream that this request belongs to; returns the refusal, or what was sent on."""
        return await self._proxy.handle(request, request[STREAM])


class EnvoyStream:
    """The stream of one request: its body, then the carrier of what is allowed. See `proxy.exchange.Carrier`.

    `headers`: of the request as Envoy sent them, `forwarded` those of them that go on. `modes`: of the bodies of the
    request and of the response.
    """

    def __init__(
        self,
        line: Line,
        headers: CIMultiDict[str],
        modes: tuple[BodyMode, BodyMode],
        timeouts: Timeouts,
        *,
        has_body: bool,
        forwarded: CIMultiDict[str],
    ) -> None:
        self._line, self._headers, self._response_mode, self._timeouts = line, headers, modes[1], timeouts
        self.request = Direction(line, "request", modes[0], has_body=has_body, has_length="Content-Length" in headers)
        target = forwarded.copy()
        if modes[0] is BodyMode.STREAMED:  # the headers go on before it is known whether the response is read
            target["accept-encoding"] = "identity"
        self.request.change_headers(header_changes(headers, target))
        self._response: EnvoyResponse | None = None
        self.is_finished = False
        """Whether all of the response went to the client."""

    def at_eof(self) -> bool:
        """Whether the body of the request was read."""
        return self.request.is_read

    async def readany(self) -> bytes:
        """The next piece of the body of the request. Raises `Oversize` if Envoy does not send it."""
        mode = self.request.mode
        if mode is BodyMode.NONE:
            self.request.is_read = True
            raise _BodyNotSent
        if mode is BodyMode.UNKNOWN:
            raise Unavailable("Envoy does not say its request_body_mode: it is too old, or too new.", retry_after=1)
        if mode not in WHOLE:
            raise Unavailable(f"Envoy's request_body_mode {mode.name} cannot be scanned.", retry_after=1)
        if mode is BodyMode.STREAMED and "Content-Encoding" in self._headers:
            raise BodyError("encoding", "A compressed body needs request_body_mode BUFFERED.", status=415)
        return await self.request.read()

    @property
    def shows_responses(self) -> bool:
        """Whether Envoy sends the bodies of responses, and sends on what it gets back."""
        return self._response_mode in WHOLE

    @asynccontextmanager
    async def send(
        self, request: UpstreamRequest, verdict_headers: Mapping[str, str]
    ) -> AsyncIterator[UpstreamResponse]:
        """Let Envoy send the request on, and wait for the headers of the response. See `Carrier`."""
        self.request.change_headers(header_changes(self._headers, request.headers))
        if request.body is None or isinstance(request.body, bytes):
            await self.request.finish(request.body or b"")
        else:
            async for chunk in request.body:
                await self.request.write(chunk)
            await self.request.finish()
        self._response = response = await self._receive_response()
        response.change_headers(response, verdict_headers)
        yield response

    async def relay(
        self,
        request: web.Request,
        upstream: UpstreamResponse,
        extra_headers: Mapping[str, str],
        *,
        dialect: str,
        write_timeout: float,
        keepalive: float | None = None,
    ) -> web.StreamResponse:
        """Let Envoy send the response on, with `extra_headers`. See `Carrier`."""
        if self._response is None:
            raise UpstreamError(ENDED)
        direction, is_stream = self._response.direction, is_event_stream(upstream)
        self._response.change_headers(upstream, extra_headers)
        is_duplex = direction.mode is BodyMode.FULL_DUPLEX_STREAMED
        try:
            if is_duplex:
                await direction.begin()
            pause = keepalive if is_stream and is_duplex else None  # elsewhere every reply needs a message
            await write_chunks(direction, body_chunks(upstream, is_stream=is_stream), write_timeout, dialect, pause)
            await with_timeout(write_timeout, direction.finish())
        except UpstreamError as error:
            _log.warning("answer_cut", decision=request.get(DECISION_ID), cause=error.detail)
            cut = await _cut(direction, error, dialect, is_stream=is_stream)
            cut.headers.update(extra_headers)
            return cut
        except TimeoutError:
            _log.warning("client_stuck", decision=request.get(DECISION_ID))
            return web.StreamResponse(status=504)
        self.is_finished = True
        return web.StreamResponse(status=upstream.status)

    async def _receive_response(self) -> EnvoyResponse:
        while True:
            try:
                name, message = await with_timeout(self._timeouts.first_byte, self._line.receive())
            except TimeoutError:
                raise UpstreamError("The upstream did not answer in time.", status=504) from None
            if name == "response_headers":
                return EnvoyResponse(self._line, self._response_mode, message, self._timeouts.idle)
            if not name:  # the client has left: the inline proxy's handler is cancelled then
                raise asyncio.CancelledError(ENDED)
            if name != "request_trailers":
                raise UpstreamError("Envoy sent no headers of the response: its response_header_mode must be SEND.")
            await self.request.drop_trailers(message)


class EnvoyResponse:
    """The response as Envoy sends it: an `UpstreamResponse`, and the direction in which it goes on."""

    reason = ""

    def __init__(self, line: Line, mode: BodyMode, head: Any, idle_timeout: float) -> None:
        received = header_map(head.headers)
        status = received.get(":status", "")
        self.status = int(status) if status.isdecimal() else 502
        self.headers = without_pseudo(received)
        self._idle_timeout = idle_timeout
        has_body, has_length = not head.end_of_stream, "Content-Length" in received
        self.direction = Direction(line, "response", mode, has_body=has_body, has_length=has_length)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; nothing if Envoy does not send it, and leaves it as it is."""
        while self.direction.mode in WHOLE and not self.direction.is_read:
            try:
                chunk = await with_timeout(self._idle_timeout, self.direction.read())
            except TimeoutError:
                raise UpstreamError("The upstream stalled.", status=504) from None
            if chunk:
                yield chunk

    def change_headers(self, response: UpstreamResponse, extra_headers: Mapping[str, str]) -> None:
        """Send on the headers of this response, which may have lost some, and the extra ones."""
        target = client_headers(response.headers)
        target.update(extra_headers)
        self.direction.change_headers(header_changes(self.headers, target))


class _BodyNotSent(Oversize):
    """Envoy keeps the body: what `failure.input.oversize` says holds."""

    def __init__(self) -> None:
        super().__init__(0, [])
        modes = "BUFFERED, STREAMED or FULL_DUPLEX_STREAMED"
        self.detail = f"Envoy does not send the body: set its request_body_mode to {modes}."


async def _cut(direction: Direction, error: UpstreamError, dialect: str, *, is_stream: bool) -> web.StreamResponse:
    """The error instead of the response; or after it has begun, an error event, before Envoy cuts it."""
    if direction.is_open:
        return error_response(error, dialect)
    if is_stream:
        with suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(LAST_EVENT_SECONDS):
                await direction.write(error_event(error, dialect))
                await direction.deliver()
                await asyncio.sleep(CUT_SECONDS)
    return web.StreamResponse(status=error.status)


STREAM = web.RequestKey("envoy_stream", EnvoyStream)
"""The stream that a request belongs to."""
