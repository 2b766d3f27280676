"""Passes an upstream's answer down as it arrives, and never ends cleanly what did not end cleanly.

Plain bodies pass chunk by chunk. Server-sent events pass event by event, if they are no larger than an image: a client
cannot use half an event, and so an error can be said between two of them when the upstream breaks off. What is written
is waited for, so a client that reads slowly slows the upstream down, and nothing is buffered but one event.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Mapping

from aiohttp import web

from sidecar.errors import UpstreamError
from sidecar.proxy.keepalive import Keepalive
from sidecar.response_scan.sse import whole_events
from sidecar.server.headers import client_headers
from sidecar.server.responses import DECISION_ID, error_body
from sidecar.server.server import SHUTTING_DOWN, was_cut
from sidecar.upstream import UpstreamResponse
from sidecar.upstream.replaced import ReplacedBody
from sidecar.util import json, logs
from sidecar.util.timeouts import with_timeout

SMALL = 32 * 1024
"""Bytes of an answer that is awaited, and then written in one go with its headers."""
_RESET = struct.pack("ii", 1, 0)
_log = logs.get("relay")


async def relay(
    request: web.Request,
    answer: UpstreamResponse,
    extra: Mapping[str, str],
    *,
    dialect: str,
    patience: float,
    keepalive: float | None = None,
) -> web.StreamResponse:
    """Answer `request` with what the upstream says, and `extra` header fields.

    `patience`: seconds for which a client may take nothing before it is let go of. `keepalive`: seconds of silence
    after which an event stream gets a sign of life. The connection is
    broken off if the upstream's body breaks off; the caller returns the response in any case.
    """
    headers = client_headers(answer.headers)
    headers.update(extra)
    if request.method != "HEAD" and _is_small(answer):
        held, error = await _whole(answer)
        if error is None:
            return web.Response(status=answer.status, reason=answer.reason or None, headers=headers, body=held)
        answer = ReplacedBody(answer, _broken(held, error))
    response = web.StreamResponse(status=answer.status, reason=answer.reason or None, headers=headers)
    try:
        await response.prepare(request)
        # A body in answer to HEAD would be read as the beginning of the next answer.
        if request.method != "HEAD":
            await _pass(response, answer, patience, dialect, keepalive)
    except UpstreamError as error:
        _log.warning("answer_cut", decision=request.get(DECISION_ID), cause=error.detail)
        await _say(response, answer, error, dialect, patience)
        _break_off(request, response)
    except asyncio.CancelledError:
        if not was_cut(request):
            raise
        _log.warning("answer_cut", decision=request.get(DECISION_ID), cause=SHUTTING_DOWN)
        await _say(response, answer, UpstreamError(SHUTTING_DOWN, status=503), dialect, patience)
        _break_off(request, response)
    except TimeoutError:
        _log.warning("client_stuck", decision=request.get(DECISION_ID))
        _drop(request)
    except ConnectionError:
        _log.info("client_closed", decision=request.get(DECISION_ID))
    return response


def _is_small(answer: UpstreamResponse) -> bool:
    """Whether it says that it is so short that it is not worth passing on in pieces; events are worth it."""
    if is_event_stream(answer):
        return False
    length = answer.headers.get("Content-Length", "")
    return len(length) < 6 and length.isdecimal() and int(length) <= SMALL


async def _whole(answer: UpstreamResponse) -> tuple[bytes, UpstreamError | None]:
    """The body; or what came of it, and why there is not more."""
    came: list[bytes] = []
    try:
        async for chunk in answer.chunks():
            came.append(chunk)  # noqa: PERF401 - kept if it breaks off
    except UpstreamError as error:
        return b"".join(came), error
    return came[0] if len(came) == 1 else b"".join(came), None


async def _broken(came: bytes, error: UpstreamError) -> AsyncIterator[bytes]:
    if came:
        yield came
    raise error


def is_event_stream(answer: UpstreamResponse) -> bool:
    """Whether the body is server-sent events that can be read: not compressed."""
    content_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return content_type == "text/event-stream" and "Content-Encoding" not in answer.headers


def _parts(answer: UpstreamResponse) -> AsyncIterator[bytes]:
    return whole_events(answer.chunks()) if is_event_stream(answer) else answer.chunks()


async def _pass(
    response: web.StreamResponse, answer: UpstreamResponse, patience: float, dialect: str, keepalive: float | None
) -> None:
    if keepalive is None or not is_event_stream(answer) or response.content_length is not None:
        async for part in _parts(answer):
            await _write(response, part, patience)
        return
    with Keepalive(response, dialect, keepalive) as alive:
        async for part in _parts(answer):
            alive.passes()
            await _write(response, part, patience)
            alive.passed(part)


async def _write(response: web.StreamResponse, part: bytes, patience: float) -> None:
    await with_timeout(patience, response.write(part))


async def _say(
    response: web.StreamResponse, answer: UpstreamResponse, error: UpstreamError, dialect: str, patience: float
) -> None:
    """The error as an event: clients raise it, where a mere end of the stream would look complete to them."""
    if not is_event_stream(answer):
        return
    name = b"event: error\n" if dialect == "anthropic" else b""
    try:
        await _write(response, name + b"data: " + json.dumps(error_body(error, dialect)) + b"\n\n", patience)
    except (TimeoutError, ConnectionError):
        return


def _break_off(request: web.Request, response: web.StreamResponse) -> None:
    """Close without the mark of an end. Where the end of the connection is that mark, reset it."""
    if response.content_length is not None or request.version >= (1, 1):
        request.protocol.force_close()
    else:
        _drop(request)


def _drop(request: web.Request) -> None:
    """Reset the connection: what is still waiting to be sent is thrown away."""
    transport = request.transport
    if transport is not None:
        found: socket.socket | None = transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
    request.protocol.force_close()
