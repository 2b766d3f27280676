"""A websocket to the upstream (RFC 6455), by aiohttp's client: one connection for each of a client's."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from sidecar.errors import UpstreamError
from sidecar.upstream.proxies import Proxy

HEARTBEAT = 30.0
"""Seconds between two pings; who does not answer one is gone."""
_PASSED_ON = frozenset({400, 401, 403, 404, 429})
"""Refusals that are the client's to know; everything else is a 502."""


class NoSocket(AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]):
    """What an upstream gives that takes none."""

    async def __aenter__(self) -> aiohttp.ClientWebSocketResponse:
        """Raises `UpstreamError`."""
        raise UpstreamError("This upstream takes no websockets.")

    async def __aexit__(self, *_: object) -> None:
        """Nothing was opened."""


@asynccontextmanager
async def dial(
    url: URL,
    headers: CIMultiDict[str],
    protocols: Sequence[str],
    *,
    most: int,
    patience: float,
    tls: ssl.SSLContext | None,
    proxy: Proxy | None,
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """An open websocket; messages are of `most` bytes, and `patience` is for connecting, in seconds.

    Raises `UpstreamError` if the upstream does not take it.
    """
    connector = aiohttp.TCPConnector(ssl=tls if tls is not None else True, limit=1, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=patience)
    address = None if proxy is None else f"http://{proxy.host}:{proxy.port}"
    fields = {"Proxy-Authorization": proxy.authorization} if proxy is not None and proxy.authorization else None
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        try:
            socket = await session.ws_connect(
                url,
                headers=headers,
                protocols=protocols,
                heartbeat=HEARTBEAT,
                max_msg_size=most,
                proxy=address,
                proxy_headers=fields,
            )
        except aiohttp.WSServerHandshakeError as error:
            status = error.status if error.status in _PASSED_ON else 502
            raise UpstreamError(f"The upstream refused the websocket ({error.status}).", status=status) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UpstreamError(f"The upstream did not take the websocket ({type(error).__name__}).") from None
        async with socket:
            yield socket
