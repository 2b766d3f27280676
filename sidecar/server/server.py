"""A listening site: aiohttp's server with our bounds and without its plain-text errors and tracebacks.

Bounds: connections at once, what the headers of one may take, and what is read ahead of a handler.

What aiohttp cannot parse never reaches a handler, so its answer is made here, in a body that the
clients of both doors read. Bodies arrive as sent: decompression is ours, bounded, in `bodies`.
"""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler

from sidecar.config import Limits
from sidecar.errors import SidecarError
from sidecar.observability.metrics import CONNECTIONS, NO_ROOM
from sidecar.util import json, logs

_log = logs.get("server")
FIELD_BYTES = 32 * 1024
LINE_BYTES = 16 * 1024
HEAD_BYTES = 64 * 1024
"""Of one request's headers together, and a read more."""
READ_AHEAD = 64 * 1024
TURNED = 256
"""Connections that are being told that there is no room; whoever comes beside them is cut."""
BACKLOG = 1024
_SAID = {500: "Internal server error.", 503: "The scanner is busy."}
# Who has been answered before the body was read gets this long to stop sending, in seconds.
LINGER = 1.0
CUT = 2.0
"""Seconds before the end of a drain in which what still runs is told so; at most half of the drain."""

_HTTP2 = b"PRI * HTTP/2.0"
"""How a client begins that knows beforehand that HTTP/2 is spoken here (RFC 9113, 3.4)."""
_GO_AWAY = (
    bytes.fromhex("000000 04 00 00000000")  # settings, without which the rest means nothing
    + bytes.fromhex("00002e 07 00 00000000 00000000 0000000d")  # GOAWAY, HTTP_1_1_REQUIRED, and why:
    + b"This port speaks HTTP/1.1, not HTTP/2."
)
ENDING = "The sidecar is shutting down."


class Connection(RequestHandler):
    """One client connection; errors below the handlers are answered in JSON and logged in one line."""

    __slots__ = ("_body", "_head", "cut", "upgraded")

    def __init__(self, manager: _Server, **given: Any) -> None:
        super().__init__(manager, **given)
        self._body: Any = EMPTY_PAYLOAD
        self._head = 0
        self.cut = False
        """Whether a drain has ended what runs here: its cancellation is no client's leaving."""
        self.upgraded = False
        """Whether it is a websocket by now: what comes are frames, which have bounds of their own."""

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - aiohttp's
        """Let what runs end within `timeout`, cut and answer what does not. Aiohttp's own waits for it twice."""
        whole = timeout or 0.0
        cutting = self._loop.call_later(max(whole - CUT, whole / 2), self._cut)
        try:
            async with asyncio.timeout(whole):
                await super().shutdown(whole)
        except TimeoutError:
            if self._task_handler is not None:
                self._task_handler.cancel()
            self.force_close()
        finally:
            cutting.cancel()

    def _cut(self) -> None:
        if self._task_handler is not None and self._current_request is not None:
            self.cut = True
            self._task_handler.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take it, if there is room."""
        if isinstance(self._manager, _Server) and isinstance(transport, asyncio.Transport) and self._manager.full:
            self._manager.turn_away(transport)
            return
        CONNECTIONS.inc()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room."""
        if self._manager is not None:
            CONNECTIONS.dec()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what belongs to no body: that is headers, which the parser bounds one by one only."""
        if not self._request_count and data.startswith(_HTTP2) and self.transport is not None:
            _log.warning("request_unreadable", status=505, kind="HTTP/2 without asking")
            self.transport.write(_GO_AWAY)
            self.force_close()
            return
        seen, of_a_body = self._request_count, not self._body.is_eof()
        super().data_received(data)
        if self._request_count != seen:
            self._body, self._head = self._messages[-1][1], 0
        elif not of_a_body and not self.upgraded:
            self._head += len(data)
            if self._head > HEAD_BYTES and self.transport is not None:
                _log.warning("request_unreadable", status=431, kind="HeadersTooLarge")
                self.transport.write(_whole(431, "The headers are too large."))
                self.force_close()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Asked for after every read; where nothing was paused there is nothing to parse again."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - may quote the request, so it is not shown
    ) -> web.StreamResponse:
        """Answer what could not be parsed (400) or what no boundary caught (500), and close."""
        if isinstance(exc, MemoryError):
            status = 503
        _log.warning("request_unreadable", status=status, kind=type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        said = _SAID.get(status, "The request is not valid HTTP.")
        answer = web.Response(status=status, body=_body(said, status), content_type="application/json")
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """What aiohttp refuses before any middleware, such as an unknown `Expect` (417), is answered in JSON too.

        A chunked request is the last on its connection (`_announce_end`), and so is one whose body never came: who has
        had the time for it learns at once that nothing follows, while lingering still takes in what is on its way.
        """
        if isinstance(resp, web.HTTPException):
            body = _body(f"The request is not served: {resp.reason}.", resp.status)
            resp = web.Response(status=resp.status, body=body, content_type="application/json")
        given_up = resp.status == HTTPStatus.REQUEST_TIMEOUT and not request.content.is_eof()
        if given_up or _is_chunked(request):
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        if given_up and isinstance(self.transport, asyncio.Transport) and self.transport.can_write_eof():
            self.transport.write_eof()
        return finished

    def log_exception(self, *_args: object, **kw: Any) -> None:
        """One line with the type: the text of an exception may quote what a client sent."""
        _log.error("connection_failed", kind=type(kw.get("exc_info")).__name__)


class _Turned(asyncio.Protocol):
    """Says 503 to a client that asks for something, and waits a moment so that it can be read."""

    def __init__(self, transport: asyncio.Transport, turned: set[asyncio.Transport]) -> None:
        self._transport, self._turned = transport, turned
        self._said = False
        turned.add(transport)
        self._end = asyncio.get_running_loop().call_later(LINGER, transport.abort)

    def data_received(self, _data: bytes) -> None:
        """Answer, once."""
        if not self._said:
            self._said = True
            self._transport.write(_whole(503, "Too many connections.", "Retry-After: 1\r\n"))
            self._transport.write_eof()

    def connection_lost(self, _error: Exception | None) -> None:
        """It is over."""
        self._end.cancel()
        self._turned.discard(self._transport)


class _Server(web.Server):
    """`most`: connections at once."""

    def __init__(self, *given: Any, most: int, **more: Any) -> None:
        super().__init__(*given, **more)
        self._most = most
        self._turned: set[asyncio.Transport] = set()

    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._kwargs)

    @property
    def full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._connections) >= self._most

    def turn_away(self, transport: asyncio.Transport) -> None:
        """No room: say so, or if many are being told already, just cut."""
        NO_ROOM.labels("connection").inc()
        if len(self._turned) >= TURNED:
            transport.abort()
        else:
            transport.set_protocol(_Turned(transport, self._turned))

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's
        """End all of them."""
        for transport in tuple(self._turned):
            transport.abort()
        await super().shutdown(timeout)


class _Runner(web.AppRunner):
    def __init__(self, app: web.Application, *, most: int, **given: Any) -> None:
        super().__init__(app, **given)
        self._most = most

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            most=self._most,
            request_factory=made.request_factory,
            handler_cancellation=True,
            loop=made._loop,  # noqa: SLF001 - the subclass stands in for the server that aiohttp made
            **made._kwargs,  # noqa: SLF001
        )


async def _announce_end(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Aiohttp takes the trailers of a chunked body for fields of the next request, which may be another user's."""
    if _is_chunked(request):
        response.headers["Connection"] = "close"


def _is_chunked(request: web.BaseRequest) -> bool:
    return "Transfer-Encoding" in request.headers


class Site:
    """Serves one application on one address, bounded in header size and time, and drains on close."""

    def __init__(self, app: web.Application, limits: Limits, drain: float) -> None:
        app.on_response_prepare.append(_announce_end)
        self._runner = _Runner(
            app,
            most=limits.connections,
            access_log=None,
            keepalive_timeout=limits.header_timeout,
            max_field_size=FIELD_BYTES,
            max_line_size=LINE_BYTES,
            read_bufsize=READ_AHEAD,
            auto_decompress=False,
            shutdown_timeout=drain,
            lingering_time=LINGER,
        )

    @property
    def full(self) -> bool:
        """Whether new connections are turned away."""
        server = self._runner.server
        return isinstance(server, _Server) and server.full

    async def listen(self, host: str, port: int, *, share: bool = False) -> int:
        """Start to listen; returns the port, which matters where 0 was asked for. `share`: SO_REUSEPORT."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=BACKLOG, reuse_port=share or None)
        try:
            await site.start()
        except OSError as error:
            raise SidecarError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from None
        return _port(self._runner.addresses)

    async def close(self, left: float | None = None) -> None:
        """Stop accepting, let requests in flight end within `left` seconds (or the drain timeout), then cut them."""
        if left is not None:
            self._runner._shutdown_timeout = left  # noqa: SLF001 - it is known when a drain begins
        await self._runner.cleanup()


def upgraded(request: web.Request) -> None:
    """From now on this connection is a websocket."""
    if isinstance(request.protocol, Connection):
        request.protocol.upgraded = True


def is_cut(request: web.Request) -> bool:
    """Whether this request was cancelled because its drain ends, and its client is there to be told."""
    return isinstance(request.protocol, Connection) and request.protocol.cut


def _port(addresses: list[Any]) -> int:
    return int(addresses[0][1])


def _whole(status: int, message: str, more: str = "") -> bytes:
    """An answer for where no handler can make one."""
    body, reason = _body(message, status), HTTPStatus(status).phrase
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{more}Connection: close\r\n\r\n".encode() + body


def _body(message: str, status: int) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    envelope = {"message": message, "type": kind, "param": None, "code": "invalid_http"}
    return json.dumps({"detail": message, "error": envelope})
