"""Reads a request body once: bounded in bytes, in time, and in what it takes of the memory for all bodies."""

from __future__ import annotations

import asyncio
from functools import partial

from aiohttp import StreamReader, web

from sidecar.config import Limits
from sidecar.errors import BodyError
from sidecar.extraction import json_body
from sidecar.limits import OverBudget, Reservation
from sidecar.util.timeouts import with_timeout

RESERVATION = web.RequestKey("lease", Reservation)
"""What this request holds of the memory for all bodies (`limits.bodies`)."""
THREAD_BYTES = 128 * 1024
"""Reading a body of this size takes about as long as the event loop may be held (5 ms)."""


class Oversize(BodyError):
    """The body is larger than the limit. `head` is what was read of it before that was known."""

    def __init__(self, limit: int, head: list[bytes]) -> None:
        super().__init__("oversize", f"The body is larger than {limit} bytes (limits.body_bytes).", status=413)
        self.head = head


async def receive(request: web.Request, limits: Limits) -> bytes:
    """The whole body as sent (chunking undone).

    Raises `Oversize` (413), `BodyError` (slow 408, cut off 400), or `OverBudget`.
    """
    if (request.content_length or 0) > limits.body_bytes:
        raise Oversize(limits.body_bytes, [])
    reservation = request[RESERVATION]
    try:
        return await _whole(request.content, limits, reservation)
    except TimeoutError:
        if reservation.waiting:  # no fault of the client's
            raise OverBudget("no room in time") from None
        raise BodyError("malformed", _slow(limits), status=408) from None
    except web.RequestPayloadError:
        raise BodyError("malformed", "The body broke off before its end.") from None


async def _whole(content: StreamReader, limits: Limits, reservation: Reservation) -> bytes:
    """Judged by its progress: a large body on a slow line gets its time, and one that stands still does not."""
    chunks: list[bytes] = []
    size, now = 0, asyncio.get_running_loop().time
    began = now()
    while not content.at_eof():
        until = began + limits.body_timeout + size / limits.body_rate
        chunk = await with_timeout(until - now(), content.readany())
        size += len(chunk)
        chunks.append(chunk)
        if size > limits.body_bytes:
            raise Oversize(limits.body_bytes, chunks)
        await with_timeout(until - now(), reservation.resize(2 * size))  # the pieces, and what they are together
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _slow(limits: Limits) -> str:
    return f"The body did not arrive within {limits.body_timeout:g} s and a second more for {limits.body_rate} bytes."


def content_coding(request: web.Request) -> str | None:
    """What the body is packed in, however many fields say so."""
    if "Content-Encoding" not in request.headers:
        return None
    return ", ".join(request.headers.getall("Content-Encoding")) or None


async def unpack(request: web.Request, raw: bytes, content_type: str | None, limits: Limits) -> bytes:
    """The JSON of a body, without its content coding, once there is room for what reading it takes.

    Raises `BodyError` (encoding 415, malformed 400, oversize 413), or `OverBudget`.
    """
    coding = content_coding(request)
    if coding is None:
        plain = json_body.decode(raw, content_type=content_type, content_encoding=None, limit=limits.body_bytes)
    else:
        decode = partial(
            json_body.decode, raw, content_type=content_type, content_encoding=coding, limit=limits.body_bytes
        )
        await request[RESERVATION].resize(2 * len(raw) + json_body.max_inflated_size(raw, coding, limits.body_bytes))
        plain = await asyncio.to_thread(decode)
    await reserve_parsing(request, plain, len(raw))
    return plain


async def reserve_parsing(request: web.Request, body: bytes, besides: int = 0) -> None:
    """Reserve what parsing `body` takes beside `besides` bytes. Raises `BodyError` (413) or `OverBudget`."""
    large = len(body) > THREAD_BYTES
    size = besides + (await asyncio.to_thread(json_body.footprint, body) if large else json_body.footprint(body))
    if size > request[RESERVATION].max_size:
        raise BodyError("oversize", "Reading the body would take too much memory (limits.bodies).", status=413)
    await request[RESERVATION].resize(size)
