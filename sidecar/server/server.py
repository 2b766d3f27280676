"""A listening site: aiohttp's server with bounds, and JSON errors instead of plain text and tracebacks.

Bounded are the number of connections, the header size of a request, and the bytes read ahead of a handler.

A request that aiohttp cannot parse never reaches a handler, so it is answered here, with a body that clients
of all endpoints understand. Bodies are passed on as sent; bounded decompression happens in `server.body`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from sidecar.config import Limits
from sidecar.errors import SidecarError
from sidecar.observability.metrics import CONNECTIONS, NO_ROOM
from sidecar.server.address_connections import AddressConnections, Network
from sidecar.util import json, logs

_log = logs.get("server")
FIELD_BYTES = 32 * 1024
LINE_BYTES = 16 * 1024
HEAD_BYTES = 64 * 1024
"""Limit of one request's headers in total."""
FIELD_OVERHEAD = len(b": \r\n")
READ_AHEAD = 64 * 1024
MAX_REJECTING = 256
"""Max. connections being answered 503; further ones are reset."""
BACKLOG = 1024
_TOO_LARGE = "The headers are too large."
_MESSAGES = {431: _TOO_LARGE, 500: "Internal server error.", 503: "The scanner is busy."}
# After a response sent before the body was read, the client has this long to stop sending, in seconds.
LINGER_SECONDS = 1.0
CUT_SECONDS = 2.0
"""Seconds before the end of a drain at which running requests are cancelled; at most half of the drain."""

_HTTP2 = b"PRI * HTTP/2.0"
"""Start of the connection preface of an HTTP/2 client with prior knowledge (RFC 9113, 3.4)."""
_GO_AWAY = (
    bytes.fromhex("000000 04 00 00000000")  # SETTINGS, which must come first
    + bytes.fromhex("00002e 07 00 00000000 00000000 0000000d")  # GOAWAY, HTTP_1_1_REQUIRED, and the reason:
    + b"This port speaks HTTP/1.1, not HTTP/2."
)
SHUTTING_DOWN = "The sidecar is shutting down."


class Connection(RequestHandler):
    """One client connection; protocol errors are answered in JSON and logged in one line."""

    __slots__ = ("_address", "_body", "_head", "cut", "upgraded")

    def __init__(self, manager: _Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._body: Any = EMPTY_PAYLOAD
        self._head = 0
        self._address = ""
        self.cut = False
        """Whether a drain cancelled the request, as opposed to a client that disconnected."""
        self.upgraded = False
        """Whether it is a websocket, whose frames have separate bounds."""

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - aiohttp's
        """Let the running request finish within `timeout`, else cancel it. Aiohttp's method waits twice as long."""
        seconds = timeout or 0.0
        cut_timer = self._loop.call_later(max(seconds - CUT_SECONDS, seconds / 2), self._cut)
        try:
            async with asyncio.timeout(seconds):
                await super().shutdown(seconds)
        except TimeoutError:
            if self._task_handler is not None:
                self._task_handler.cancel()
            self.force_close()
        finally:
            cut_timer.cancel()

    def _cut(self) -> None:
        if self._task_handler is not None and self._current_request is not None:
            self.cut = True
            self._task_handler.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or reject it if the server, or the share of its address, is full."""
        if isinstance(self._manager, _Server) and isinstance(transport, asyncio.Transport):
            address = None if self._manager.full else self._manager.addresses.open(transport)
            if address is None:
                self._manager.reject(transport)
                return
            self._address = address
        CONNECTIONS.inc()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Update the connection count."""
        if self._manager is not None:
            CONNECTIONS.dec()
        if self._address and isinstance(self._manager, _Server):
            self._manager.addresses.close(self._address)
            self._address = ""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bound the headers in total, i.e. bytes outside a body; the parser bounds only single fields."""
        if not self._request_count and data.startswith(_HTTP2) and self.transport is not None:
            _log.warning("request_unreadable", status=505, kind="HTTP/2 without asking")
            self.transport.write(_GO_AWAY)
            self.force_close()
            return
        request_count, in_body = self._request_count, not self._body.is_eof()
        super().data_received(data)
        if self._request_count != request_count:
            self._body, self._head = self._messages[-1][1], 0
        elif not in_body and not self.upgraded:
            self._head += len(data)
            if self._head > HEAD_BYTES and self.transport is not None:
                _log.warning("request_unreadable", status=431, kind="HeadersTooLarge")
                self.transport.write(_raw_response(431, _TOO_LARGE))
                self.force_close()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Called after every read; skip the parser if reading was not paused."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - may quote the request, so it is not shown
    ) -> web.StreamResponse:
        """Answer a request that could not be parsed (400) or an uncaught error (500), and close."""
        if isinstance(exc, MemoryError):
            status = 503
        elif _is_too_large(exc):
            status = 431
        _log.warning("request_unreadable", status=status, kind=type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        text = _MESSAGES.get(status, "The request is not valid HTTP.")
        response = _Unnamed(status=status, body=_body(text, status), content_type="application/json")
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer in JSON as well what aiohttp refuses before any middleware, such as an unknown `Expect` (417).

        A chunked request is the last on its connection (`_announce_end`), and so is one whose body timed out: the
        client sees the end of the stream at once, while lingering still reads the data in flight.
        """
        if isinstance(resp, web.HTTPException):
            body = _body(f"The request is not served: {resp.reason}.", resp.status)
            resp = web.Response(status=resp.status, body=body, content_type="application/json")
        timed_out = resp.status == HTTPStatus.REQUEST_TIMEOUT and not request.content.is_eof()
        if timed_out or _is_chunked(request):
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        if timed_out and isinstance(self.transport, asyncio.Transport) and self.transport.can_write_eof():
            self.transport.write_eof()
        return finished

    def log_exception(self, *_args: object, **kw: Any) -> None:
        """Log only the type in one line: the message of an exception may quote client data."""
        _log.error("connection_failed", kind=type(kw.get("exc_info")).__name__)


class _RejectedConnection(asyncio.Protocol):
    """Answers 503 to the first data of a client, and lingers so that the client can read it."""

    def __init__(self, transport: asyncio.Transport, rejecting: set[asyncio.Transport]) -> None:
        self._transport, self._rejecting = transport, rejecting
        self._answered = False
        rejecting.add(transport)
        self._end = asyncio.get_running_loop().call_later(LINGER_SECONDS, transport.abort)

    def data_received(self, _data: bytes) -> None:
        """Answer once."""
        if not self._answered:
            self._answered = True
            self._transport.write(_raw_response(503, "Too many connections.", "Retry-After: 1\r\n"))
            self._transport.write_eof()

    def connection_lost(self, _error: Exception | None) -> None:
        """Stop the timer and free the place."""
        self._end.cancel()
        self._rejecting.discard(self._transport)


class _Server(web.Server):
    """A server with at most `max_connections` concurrent connections."""

    def __init__(self, *arguments: Any, max_connections: int, addresses: AddressConnections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._max_connections, self.addresses = max_connections, addresses
        self._rejecting: set[asyncio.Transport] = set()

    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._kwargs)

    @property
    def full(self) -> bool:
        """Whether the connection limit is reached."""
        return len(self._connections) >= self._max_connections

    def reject(self, transport: asyncio.Transport) -> None:
        """Reject a connection with a 503, or reset it if too many are being rejected."""
        NO_ROOM.labels("connection").inc()
        if len(self._rejecting) >= MAX_REJECTING:
            transport.abort()
        else:
            transport.set_protocol(_RejectedConnection(transport, self._rejecting))

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's
        """Close all connections."""
        for transport in tuple(self._rejecting):
            transport.abort()
        await super().shutdown(timeout)


class _Runner(web.AppRunner):
    def __init__(
        self, app: web.Application, *, max_connections: int, addresses: AddressConnections, **options: Any
    ) -> None:
        super().__init__(app, **options)
        self._max_connections, self._addresses = max_connections, addresses

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _Server(
            server.request_handler,
            max_connections=self._max_connections,
            addresses=self._addresses,
            request_factory=server.request_factory,
            handler_cancellation=True,
            loop=server._loop,  # noqa: SLF001 - the subclass replaces the server created by aiohttp
            **server._kwargs,  # noqa: SLF001
        )


class _Unnamed(web.Response):
    """Without aiohttp's `Server` header and its version: no signal reaches what is answered before a handler."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.pop("Server", None)


def _is_too_large(error: BaseException | None) -> bool:
    """Whether the parser gave up because of one long line, or of too many fields."""
    return isinstance(error, LineTooLong) or (isinstance(error, BadHttpMessage) and "Too many" in str(error))


@web.middleware
async def _bounded_head(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse headers that arrived within one read and are too large together; the parser bounds only single fields."""
    size = 0
    for name, value in request.raw_headers:
        size += len(name) + len(value) + FIELD_OVERHEAD
    if size <= HEAD_BYTES:
        return await handler(request)
    _log.warning("request_unreadable", status=431, kind="HeadersTooLarge")
    response = _Unnamed(status=431, body=_body(_TOO_LARGE, 431), content_type="application/json")
    response.force_close()
    return response


async def _announce_end(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Close after a chunked body: aiohttp takes its trailers for headers of the next request, maybe another user's."""
    if _is_chunked(request):
        response.headers["Connection"] = "close"


def _is_chunked(request: web.BaseRequest) -> bool:
    return "Transfer-Encoding" in request.headers


class Site:
    """Serves one application on one address, with bounded header size and time, and drains on close."""

    def __init__(self, app: web.Application, limits: Limits, drain: float, proxies: Sequence[Network] = ()) -> None:
        """`proxies`: trusted ones, whose addresses stand for many clients."""
        app.on_response_prepare.append(_announce_end)
        app.middlewares.insert(0, _bounded_head)
        self._runner = _Runner(
            app,
            max_connections=limits.connections,
            addresses=AddressConnections(limits.address_connections, proxies),
            access_log=None,
            keepalive_timeout=limits.header_timeout,
            max_field_size=FIELD_BYTES,
            max_line_size=LINE_BYTES,
            read_bufsize=READ_AHEAD,
            auto_decompress=False,
            shutdown_timeout=drain,
            lingering_time=LINGER_SECONDS,
        )

    @property
    def full(self) -> bool:
        """Whether new connections are rejected."""
        server = self._runner.server
        return isinstance(server, _Server) and server.full

    async def listen(self, host: str, port: int, *, share: bool = False) -> int:
        """Start to listen and return the port, which differs from `port` if that is 0. `share`: SO_REUSEPORT."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=BACKLOG, reuse_port=share or None)
        try:
            await site.start()
        except OSError as error:
            raise SidecarError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from None
        return _port(self._runner.addresses)

    async def close(self, seconds: float | None = None) -> None:
        """Stop accepting, let requests in flight finish within `seconds` (or the drain timeout), then cancel them."""
        if seconds is not None:
            self._runner._shutdown_timeout = seconds  # noqa: SLF001 - known only when the drain begins
        await self._runner.cleanup()


def mark_upgraded(request: web.Request) -> None:
    """Mark the connection of a request as a websocket."""
    if isinstance(request.protocol, Connection):
        request.protocol.upgraded = True


def was_cut(request: web.Request) -> bool:
    """Whether the end of a drain cancelled this request, so that its client can still be answered."""
    return isinstance(request.protocol, Connection) and request.protocol.cut


def _port(addresses: list[Any]) -> int:
    return int(addresses[0][1])


def _raw_response(status: int, message: str, extra_headers: str = "") -> bytes:
    """A complete raw response, for use without a handler."""
    body, reason = _body(message, status), HTTPStatus(status).phrase
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{extra_headers}Connection: close\r\n\r\n".encode() + body


def _body(message: str, status: int) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    envelope = {"message": message, "type": kind, "param": None, "code": "invalid_http"}
    return json.dumps({"detail": message, "error": envelope})
