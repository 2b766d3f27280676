"""A listening site: aiohttp's server with our bounds and without its plain-text errors and tracebacks.

What aiohttp cannot parse never reaches a handler, so its answer is made here, in a body that the
clients of both doors read. Bodies arrive as sent: decompression is ours, bounded, in `bodies`.
"""

from __future__ import annotations

import os
from typing import Any

import orjson
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from sidecar import logs
from sidecar.config import Limits
from sidecar.errors import SidecarError

_log = logs.get("server")
FIELD_BYTES = 32 * 1024
LINE_BYTES = 16 * 1024
BACKLOG = 1024
# Who has been answered before the body was read gets this long to stop sending, in seconds.
LINGER = 1.0


class Connection(RequestHandler):
    """One client connection; errors below the handlers are answered in JSON and logged in one line."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - may quote the request, so it is not shown
    ) -> web.StreamResponse:
        """Answer what could not be parsed (400) or what no boundary caught (500), and close."""
        _log.warning("request_unreadable", status=status, kind=type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        said = "The request is not valid HTTP." if status < 500 else "Internal server error."
        answer = web.Response(status=status, body=_body(said, status), content_type="application/json")
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """What aiohttp refuses before any middleware, such as an unknown `Expect` (417), is answered in JSON too."""
        if isinstance(resp, web.HTTPException):
            body = _body(f"The request is not served: {resp.reason}.", resp.status)
            resp = web.Response(status=resp.status, body=body, content_type="application/json")
        return await super().finish_response(request, resp, start_time)

    def log_exception(self, *_args: object, **kw: Any) -> None:
        """One line with the type: the text of an exception may quote what a client sent."""
        _log.error("connection_failed", kind=type(kw.get("exc_info")).__name__)


class _Server(web.Server):
    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._kwargs)


class _Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=True,
            loop=made._loop,  # noqa: SLF001 - the subclass stands in for the server that aiohttp made
            **made._kwargs,  # noqa: SLF001
        )


class Site:
    """Serves one application on one address, bounded in header size and time, and drains on close."""

    def __init__(self, app: web.Application, limits: Limits, drain: float) -> None:
        self._runner = _Runner(
            app,
            access_log=None,
            keepalive_timeout=limits.header_timeout,
            max_field_size=FIELD_BYTES,
            max_line_size=LINE_BYTES,
            auto_decompress=False,
            shutdown_timeout=drain,
            lingering_time=LINGER,
        )

    async def listen(self, host: str, port: int, *, share: bool = False) -> int:
        """Start to listen; returns the port, which matters where 0 was asked for. `share`: SO_REUSEPORT."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=BACKLOG, reuse_port=share or None)
        try:
            await site.start()
        except OSError as error:
            raise SidecarError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from None
        return _port(self._runner.addresses)

    async def close(self) -> None:
        """Stop accepting, let requests in flight end within the drain timeout, then cut them."""
        await self._runner.cleanup()


def _port(addresses: list[Any]) -> int:
    return int(addresses[0][1])


def _body(message: str, status: int) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    envelope = {"message": message, "type": kind, "param": None, "code": "invalid_http"}
    return orjson.dumps({"detail": message, "error": envelope})
