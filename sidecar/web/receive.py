"""Reads a request body once: bounded in bytes and in time."""

from __future__ import annotations

import asyncio

from aiohttp import web

from sidecar.config import Limits
from sidecar.errors import BodyError


class Oversize(BodyError):
    """The body is larger than the limit. `head` is what was read of it before that was known."""

    def __init__(self, limit: int, head: list[bytes]) -> None:
        super().__init__("oversize", f"The body is larger than {limit} bytes (limits.body_bytes).", status=413)
        self.head = head


async def receive(request: web.Request, limits: Limits) -> bytes:
    """The whole body as sent (chunking undone). Raises `Oversize` (413) or `BodyError` (slow 408, cut off 400)."""
    if (request.content_length or 0) > limits.body_bytes:
        raise Oversize(limits.body_bytes, [])
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for chunk in request.content.iter_any():
                size += len(chunk)
                chunks.append(chunk)
                if size > limits.body_bytes:
                    raise Oversize(limits.body_bytes, chunks)
    except TimeoutError:
        raise BodyError("malformed", f"The body did not arrive within {limits.body_timeout:g} s.", status=408) from None
    except web.RequestPayloadError:
        raise BodyError("malformed", "The body broke off before its end.") from None
    return b"".join(chunks)
