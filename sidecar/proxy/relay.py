"""Relays upstream responses to the client; truncated upstream responses are truncated for the client, too.

Plain bodies are relayed chunk by chunk, server-sent events event by event (up to the size of an image): clients cannot
use half an event, and an error event can be inserted between two when the upstream fails. Every write is awaited, so a
slow client slows the upstream down, and at most one event is buffered.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Mapping

from aiohttp import web

from sidecar.errors import UpstreamError
from sidecar.protocols import PROTOCOLS
from sidecar.protocols.bedrock import STREAM_TYPE
from sidecar.proxy.keepalive import Keepalive, Writer
from sidecar.response_scan.message_stream import whole_messages
from sidecar.response_scan.sse import whole_events
from sidecar.server.headers import client_headers
from sidecar.server.responses import DECISION_ID
from sidecar.server.server import SHUTTING_DOWN, was_cut
from sidecar.upstream import UpstreamResponse
from sidecar.upstream.replaced import ReplacedBody
from sidecar.util import logs
from sidecar.util.timeouts import with_timeout

SMALL_BODY = 32 * 1024
"""Bytes up to which a response is read completely and written together with its headers."""
_RESET = struct.pack("ii", 1, 0)
_log = logs.get("relay")


async def relay(
    request: web.Request,
    upstream: UpstreamResponse,
    extra_headers: Mapping[str, str],
    *,
    dialect: str,
    write_timeout: float,
    keepalive: float | None = None,
) -> web.StreamResponse:
    """Answer `request` with the upstream's response and `extra_headers`.

    `write_timeout`: seconds after which a client that reads nothing is disconnected. `keepalive`: seconds of silence
    after which an event stream gets a keepalive. The connection is closed without a proper end if the upstream's body
    is truncated; the caller returns the response in any case.
    """
    headers = client_headers(upstream.headers)
    headers.update(extra_headers)
    is_stream = is_event_stream(upstream)
    if request.method != "HEAD" and not is_stream and _is_small(upstream):
        body, error = await _read_all(upstream)
        if error is None:
            return web.Response(status=upstream.status, reason=upstream.reason or None, headers=headers, body=body)
        upstream = ReplacedBody(upstream, _replay_then_raise(body, error))
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason or None, headers=headers)
    try:
        await response.prepare(request)
        # The client would read a body after HEAD as the start of the next response.
        if request.method != "HEAD":
            pause = keepalive if is_stream and response.content_length is None else None
            await write_chunks(response, body_chunks(upstream, is_stream=is_stream), write_timeout, dialect, pause)
    except UpstreamError as error:
        _log.warning("answer_cut", decision=request.get(DECISION_ID), cause=error.detail)
        await _send_error_event(response, upstream, error, dialect, write_timeout)
        _close_unfinished(request, response)
    except asyncio.CancelledError:
        if not was_cut(request):
            raise
        _log.warning("answer_cut", decision=request.get(DECISION_ID), cause=SHUTTING_DOWN)
        await _send_error_event(response, upstream, UpstreamError(SHUTTING_DOWN, status=503), dialect, write_timeout)
        _close_unfinished(request, response)
    except TimeoutError:
        _log.warning("client_stuck", decision=request.get(DECISION_ID))
        _reset_connection(request)
    except ConnectionError:
        _log.info("client_closed", decision=request.get(DECISION_ID))
    return response


def _is_small(upstream: UpstreamResponse) -> bool:
    """Whether its Content-Length is small enough to relay it in one write."""
    length = upstream.headers.get("Content-Length", "")
    return len(length) < 6 and length.isdecimal() and int(length) <= SMALL_BODY


async def _read_all(upstream: UpstreamResponse) -> tuple[bytes, UpstreamError | None]:
    """The body and None, or the part that arrived and the error that truncated it."""
    chunks: list[bytes] = []
    try:
        async for chunk in upstream.chunks():
            chunks.append(chunk)  # noqa: PERF401 - kept if the upstream fails
    except UpstreamError as error:
        return b"".join(chunks), error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks), None


async def _replay_then_raise(body: bytes, error: UpstreamError) -> AsyncIterator[bytes]:
    if body:
        yield body
    raise error


def is_event_stream(upstream: UpstreamResponse) -> bool:
    """Whether the body is uncompressed server-sent events."""
    content_type = upstream.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return content_type == "text/event-stream" and "Content-Encoding" not in upstream.headers


def is_message_stream(upstream: UpstreamResponse) -> bool:
    """Whether the body is an event stream of Amazon's, uncompressed."""
    content_type = upstream.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return content_type == STREAM_TYPE and "Content-Encoding" not in upstream.headers


def body_chunks(upstream: UpstreamResponse, *, is_stream: bool) -> AsyncIterator[bytes]:
    """The body as it arrives; a stream event by event."""
    if is_message_stream(upstream):
        return whole_messages(upstream.chunks())
    return whole_events(upstream.chunks()) if is_stream else upstream.chunks()


async def write_chunks(
    response: Writer,
    chunks: AsyncIterator[bytes],
    write_timeout: float,
    dialect: str,
    keepalive: float | None,
) -> None:
    """Write the chunks as they come, with keepalives after `keepalive` seconds of silence."""
    if keepalive is None:
        async for chunk in chunks:
            await _write(response, chunk, write_timeout)
        return
    with Keepalive(response, dialect, keepalive) as pings:
        async for chunk in chunks:
            pings.begin_write()
            await _write(response, chunk, write_timeout)
            pings.end_write(chunk)


async def _write(response: Writer, chunk: bytes, write_timeout: float) -> None:
    await with_timeout(write_timeout, response.write(chunk))


async def _send_error_event(
    response: web.StreamResponse, upstream: UpstreamResponse, error: UpstreamError, dialect: str, write_timeout: float
) -> None:
    """Send the error as an event: clients raise it, whereas a plain end of stream would look complete."""
    if not (is_event_stream(upstream) or is_message_stream(upstream)):
        return
    try:
        await _write(response, error_event(error, dialect), write_timeout)
    except (TimeoutError, ConnectionError):
        return


def error_event(error: UpstreamError, dialect: str) -> bytes:
    """The last event of a stream that was cut."""
    return PROTOCOLS[dialect].stream_error(error)


def _close_unfinished(request: web.Request, response: web.StreamResponse) -> None:
    """Close without a proper end of body. If closing the connection is that end (HTTP/1.0), reset it instead."""
    if response.content_length is not None or request.version >= (1, 1):
        request.protocol.force_close()
    else:
        _reset_connection(request)


def _reset_connection(request: web.Request) -> None:
    """Reset the connection; unsent data is discarded."""
    transport = request.transport
    if transport is not None:
        client_socket: socket.socket | None = transport.get_extra_info("socket")
        if client_socket is not None:
            client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
    request.protocol.force_close()
