"""Reads a request body once, bounded in size, time, and share of the memory budget for all bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from aiohttp import StreamReader, web

from sidecar.config import Limits
from sidecar.errors import BodyError
from sidecar.extraction import json_body
from sidecar.limits import OverBudget, Reservation
from sidecar.util.timeouts import with_timeout

RESERVATION = web.RequestKey("lease", Reservation)
"""The request's reservation in the memory budget for all bodies (`limits.bodies`)."""
THREAD_BYTES, THREAD_VALUES = 128 * 1024, 400
"""Parsing a body of this size, or of so many commas and brackets, takes about as long as the event loop may be blocked
(5 ms)."""
T = TypeVar("T")


class Oversize(BodyError):
    """The body is larger than the limit. `head` is the part read before that was known."""

    def __init__(self, limit: int, head: list[bytes]) -> None:
        super().__init__("oversize", f"The body is larger than {limit} bytes (limits.body_bytes).", status=413)
        self.head = head


async def read_body(request: web.Request, limits: Limits) -> bytes:
    """Read the whole body as sent, without its chunked framing.

    Raises `Oversize` (413), `BodyError` (slow 408, truncated 400), or `OverBudget`.
    """
    if (request.content_length or 0) > limits.body_bytes:
        raise Oversize(limits.body_bytes, [])
    reservation = request[RESERVATION]
    try:
        return await _read_chunks(request.content, limits, reservation)
    except TimeoutError:
        if reservation.waiting:  # not the client's fault
            raise OverBudget("no room in time") from None
        raise BodyError("malformed", _slow(limits), status=408) from None
    except web.RequestPayloadError:
        raise BodyError("malformed", "The body broke off before its end.") from None


async def _read_chunks(content: StreamReader, limits: Limits, reservation: Reservation) -> bytes:
    """Read with a deadline that grows with the bytes received: allows a slow connection, but not a stalled one."""
    # Invariant: after each chunk the reservation is twice the bytes received, which covers the final join as well.
    chunks: list[bytes] = []
    size, clock = 0, asyncio.get_running_loop().time
    started = clock()
    while not content.at_eof():
        deadline = started + limits.body_timeout + size / limits.body_rate
        chunk = await with_timeout(deadline - clock(), content.readany())
        size += len(chunk)
        chunks.append(chunk)
        if size > limits.body_bytes:
            raise Oversize(limits.body_bytes, chunks)
        await with_timeout(deadline - clock(), reservation.resize(2 * size))  # the chunks and the joined body
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _slow(limits: Limits) -> str:
    return f"The body did not arrive within {limits.body_timeout:g} s and a second more for {limits.body_rate} bytes."


def content_coding(request: web.Request) -> str | None:
    """The content coding of the body, combined from all header fields."""
    if "Content-Encoding" not in request.headers:
        return None
    return ", ".join(request.headers.getall("Content-Encoding")) or None


async def decode_body(request: web.Request, raw: bytes, content_type: str | None, limits: Limits) -> bytes:
    """Undo the content coding of a JSON body (`raw`, as read by `read_body`), and reserve the memory for parsing it.

    Raises `BodyError` (encoding 415, malformed 400, oversize 413), or `OverBudget`.
    """
    json_body.check_type(content_type)
    coding = content_coding(request)
    plain = raw if coding is None else await _inflated(request, raw, coding, limits.body_bytes)
    await reserve_parsing(request, plain, len(raw))
    return plain


async def _inflated(request: web.Request, raw: bytes, coding: str, limit: int) -> bytes:
    await request[RESERVATION].resize(2 * len(raw) + json_body.max_inflated_size(raw, coding, limit))
    return await asyncio.to_thread(json_body.inflate, raw, coding, limit=limit)


async def run_off_loop(body: bytes, read: Callable[..., T], *arguments: object) -> T:
    """Call `read`, which parses this body or its value; in a thread if it would block the event loop."""
    if len(body) > THREAD_BYTES or body.count(b",") + body.count(b"[") + body.count(b"{") > THREAD_VALUES:
        return await asyncio.to_thread(read, *arguments)
    return read(*arguments)


async def reserve_parsing(request: web.Request, body: bytes, extra_bytes: int = 0) -> None:
    """Reserve the memory for parsing `body` plus `extra_bytes`. Raises `BodyError` (413) or `OverBudget`."""
    large = len(body) > THREAD_BYTES
    size = extra_bytes + (await asyncio.to_thread(json_body.footprint, body) if large else json_body.footprint(body))
    if size > request[RESERVATION].max_size:
        raise BodyError("oversize", "Reading the body would take too much memory (limits.bodies).", status=413)
    await request[RESERVATION].resize(size)
