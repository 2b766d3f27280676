"""A request that another protocol brought, for the handlers of the data port: no connection, no second HTTP server."""

from __future__ import annotations

import asyncio
from functools import partial, update_wrapper
from types import SimpleNamespace
from typing import Any, Protocol

from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.typedefs import Handler
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL


class Payload(Protocol):
    """A body that is read while it arrives; what handlers use of aiohttp's `StreamReader`."""

    def at_eof(self) -> bool:
        """Whether all of it was read."""
        ...

    async def readany(self) -> bytes:
        """The next bytes."""
        ...


def in_process_request(
    method: str, target: str, headers: CIMultiDict[str], body: bytes | Payload, *, remote: str | None
) -> web.Request:
    """The request. `target`: path and query as received; `remote`: the address of the peer.

    Its handler must return a complete `web.Response`: there is no connection to write a stream to.
    """
    loop = asyncio.get_running_loop()
    payload: Any = _complete(body, loop) if isinstance(body, bytes) else body
    raw = tuple((name.encode(), value.encode()) for name, value in headers.items())
    url = URL.build(path=target.partition("?")[0], query_string=target.partition("?")[2], encoded=True)
    message = RawRequestMessage(
        method, target, HttpVersion11, CIMultiDictProxy(headers), raw, False, None, False, False, url
    )
    connection: Any = SimpleNamespace(ssl_context=None, peername=None, sockname=None, transport=None)
    nothing: Any = None
    return web.Request(message, payload, connection, nothing, nothing, loop, remote=remote)


def _complete(body: bytes, loop: asyncio.AbstractEventLoop) -> StreamReader:
    """A body that has arrived."""
    payload = StreamReader(BaseProtocol(loop), limit=max(1, len(body)), loop=loop)
    payload.feed_data(body)
    payload.feed_eof()
    return payload


def in_process_handler(app: web.Application, handler: Handler) -> Handler:
    """The handler behind the middleware of `app`, without its router."""
    for middleware in reversed(app.middlewares):
        handler = update_wrapper(partial(middleware, handler=handler), handler)
    return handler
