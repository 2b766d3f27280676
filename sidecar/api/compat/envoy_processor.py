"""Envoy's `ext_proc` over gRPC: each stream becomes a request for the handlers of this process.

From the documentation of Envoy 1.40 (`service/ext_proc/v3`). Envoy lets a request go on unscanned if a stream ends
cleanly before its time, or with an error where `failure_mode_allow` says so: whatever is not finished is therefore
answered with an `ImmediateResponse`. Importing this needs the extra `[grpc]`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import grpc
from aiohttp import web
from multidict import CIMultiDict

from sidecar.api.compat.envoy import PREFIX
from sidecar.api.compat.envoy_direction import (
    CONNECTION_HEADERS,
    BodyMode,
    header_map,
    header_options,
    own_headers,
    without_pseudo,
)
from sidecar.api.compat.envoy_messages import PROCESSOR, ProcessingRequest, ProcessingResponse
from sidecar.api.compat.envoy_processing import STREAM, EnvoyStream, Timeouts
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError, Unavailable, UpstreamError
from sidecar.proxy.handler import CLIENT_WRITE_TIMEOUT
from sidecar.server.headers import upstream_headers
from sidecar.server.in_process import in_process_request
from sidecar.server.responses import error_response
from sidecar.util import logs
from sidecar.util.timeouts import with_timeout

DRAIN_SECONDS = 1.0
STEPS = frozenset(f"{name}_{part}" for name in ("request", "response") for part in ("headers", "body", "trailers"))
DataHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logs.get("envoy")


class Processor:
    """Server of `Process`. `handler`: answers requests of the data port. `is_on`: whether `compat.envoy` is enabled."""

    def __init__(self, settings: Settings, handler: DataHandler, is_on: Callable[[], bool]) -> None:
        self._settings, self._handler, self._is_on = settings, handler, is_on
        self._timeouts = Timeouts(settings.upstream.first_byte_timeout, settings.upstream.idle_timeout)

    def rpc_handler(self) -> Any:
        """The service, for a gRPC server."""
        method = grpc.stream_stream_rpc_method_handler(
            self.process,
            request_deserializer=ProcessingRequest.FromString,
            response_serializer=ProcessingResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(PROCESSOR, {"Process": method})

    async def process(self, _messages: Any, context: Any) -> None:
        """Serve one stream."""
        line = GrpcLine(context, min(self._timeouts.idle, CLIENT_WRITE_TIMEOUT))
        try:
            first = await with_timeout(self._settings.limits.header_timeout, context.read())
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no headers of a request in time")
        if first is grpc.aio.EOF:
            return
        if first.observability_mode:
            _log.warning("envoy_unscanned", cause="observability_mode")
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "observability_mode: Envoy would not wait")
        try:
            response = await self._answer(first, line)
            if response is not None:
                await line.refuse(response)
                await line.drain()
        except asyncio.CancelledError:
            if not line.is_ended:
                raise
        except UpstreamError as error:  # the refusal, too, could not be sent
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, error.detail)
        finally:
            line.close()

    async def _answer(self, first: Any, line: GrpcLine) -> web.StreamResponse | None:
        """The response that Envoy has to send instead; None if everything went on."""
        try:
            if not self._is_on():
                raise Unavailable("compat.envoy is off.", retry_after=1)
            request, stream = self._open(first, line)
        except RequestError as error:
            return error_response(error, "openai")
        response = await self._handler(request)
        return None if stream.is_finished else response

    def _open(self, first: Any, line: GrpcLine) -> tuple[web.Request, EnvoyStream]:
        """The request of a stream. Raises `RequestError` if its headers are none of an HTTP request."""
        if not first.HasField("request_headers"):
            raise Unavailable("Envoy sent no headers of the request: its request_header_mode must be SEND.")
        head = first.request_headers
        received = header_map(head.headers)
        method, path = received.get(":method", ""), received.get(":path", "")
        if not path.startswith("/"):
            raise BodyError("malformed", "The path must begin with a slash.")
        headers = without_pseudo(received)
        forwarded = upstream_headers(headers, decoded=False, reserved=self._settings.gateway.header)
        is_open = not head.end_of_stream
        stream = EnvoyStream(line, headers, _modes(first), self._timeouts, has_body=is_open, forwarded=forwarded)
        try:
            request = in_process_request(
                method, f"{PREFIX}{path}", _request_headers(headers), stream, remote=peer_address(line.peer)
            )
        except ValueError:
            raise BodyError("malformed", "The request is not valid HTTP.") from None
        request[STREAM] = stream
        return request, stream


class GrpcLine:
    """The messages of one stream. See `envoy_direction.Line`. `write_timeout`: seconds for a reply to be taken."""

    def __init__(self, context: Any, write_timeout: float) -> None:
        self._context, self._write_timeout, self._sending = context, write_timeout, asyncio.Lock()
        self._reading: asyncio.Future[Any] | None = None
        self.peer: str = context.peer()
        self.is_ended = False
        """Whether Envoy has ended the stream."""

    async def receive(self) -> tuple[str, Any]:
        """The name of the next message and the message; an empty name at the end of the stream."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._context.read())
        # A read that was cancelled would take its message with it: the next caller waits for the same one.
        message = await asyncio.shield(self._reading)
        self._reading = None
        if message is grpc.aio.EOF:
            self.is_ended = True
            return "", None
        return next(((field.name, value) for field, value in message.ListFields() if field.name in STEPS), ("?", None))

    async def drain(self) -> None:
        """Discard what Envoy still sends until it ends the stream, for a moment: an earlier end could overtake."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.is_ended:
                    await self.receive()

    def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()

    async def send(self, **reply: Any) -> None:
        """Send the reply of this name. Raises `UpstreamError` if Envoy does not take it in time."""
        try:
            async with self._sending:
                await with_timeout(self._write_timeout, self._context.write(ProcessingResponse(**reply)))
        except TimeoutError:
            raise UpstreamError("Envoy does not read the replies.", status=504) from None

    async def refuse(self, response: web.StreamResponse) -> None:
        """Let Envoy answer with this response; it cuts a response that has begun."""
        is_complete = isinstance(response, web.Response)
        body = response.body if isinstance(response, web.Response) and isinstance(response.body, bytes) else b""
        immediate = {
            "status": {"code": response.status if is_complete else max(response.status, 500)},
            "headers": {"set_headers": header_options(own_headers(response))},
            "body": body,
            "details": "prompt_sidecar",
        }
        await self.send(immediate_response=immediate)


def peer_address(peer: str) -> str:
    """The address in gRPC's `ipv4:192.0.2.1:443` or `ipv6:%5B::1%5D:443`."""
    return unquote(peer).partition(":")[2]


def _modes(first: Any) -> tuple[BodyMode, BodyMode]:
    """How the bodies of the request and of the response come."""
    if not first.HasField("protocol_config"):
        return BodyMode.UNKNOWN, BodyMode.UNKNOWN
    modes = first.protocol_config
    return BodyMode(modes.request_body_mode), BodyMode(modes.response_body_mode)


def _request_headers(received: CIMultiDict[str]) -> CIMultiDict[str]:
    """The headers for the handlers: `Upgrade` is one by which they recognise websockets."""
    names = CONNECTION_HEADERS - {"content-length", "upgrade"}
    forwarded = [(name, value) for name, value in received.items() if name.lower() not in names]
    return CIMultiDict([*forwarded, ("Host", "localhost")])
