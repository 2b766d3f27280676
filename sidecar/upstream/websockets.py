"""Websockets to the upstream (RFC 6455), by aiohttp's client: one connection per client connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from sidecar.errors import UpstreamError
from sidecar.upstream.proxies import Proxy

HEARTBEAT = 30.0
"""Seconds between pings; a peer that does not answer one is considered dead."""
_FORWARDED_STATUSES = frozenset({400, 401, 403, 404, 429})
"""Error statuses that are passed to the client; all others become a 502."""
_SKIPPED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding")
"""Headers that aiohttp would add by itself."""


class UnsupportedWebSocket(AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]):
    """Returned by upstreams without websocket support."""

    async def __aenter__(self) -> aiohttp.ClientWebSocketResponse:
        """Raises `UpstreamError`."""
        raise UpstreamError("This upstream takes no websockets.")

    async def __aexit__(self, *_: object) -> None:
        """Nothing to close."""


@asynccontextmanager
async def connect(
    url: URL,
    headers: CIMultiDict[str],
    protocols: Sequence[str],
    *,
    max_message_size: int,
    connect_timeout: float,
    handshake_timeout: float,
    tls: ssl.SSLContext | None,
    proxy: Proxy | None,
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """An open websocket for messages of at most `max_message_size` bytes.

    Timeouts in seconds: `connect_timeout` for the connection, `handshake_timeout` for the whole handshake.
    Raises `UpstreamError` if the upstream rejects it or redirects.
    """
    connector = aiohttp.TCPConnector(ssl=tls if tls is not None else True, limit=1, force_close=True)
    address = None if proxy is None else URL.build(scheme="http", host=proxy.host, port=proxy.port)
    fields = {"Proxy-Authorization": proxy.authorization} if proxy is not None and proxy.authorization else None
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout),
        skip_auto_headers=_SKIPPED_HEADERS,
        trace_configs=[_reject_redirects()],
    ) as session:
        try:
            async with asyncio.timeout(handshake_timeout):
                socket = await session.ws_connect(
                    url,
                    headers=headers,
                    protocols=protocols,
                    heartbeat=HEARTBEAT,
                    max_msg_size=max_message_size,
                    proxy=address,
                    proxy_headers=fields,
                )
        except aiohttp.WSServerHandshakeError as error:
            status = error.status if error.status in _FORWARDED_STATUSES else 502
            raise UpstreamError(f"The upstream refused the websocket ({error.status}).", status=status) from None
        except TimeoutError:
            raise UpstreamError("The upstream did not answer in time.", status=504) from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError(f"The upstream did not take the websocket ({type(error).__name__}).") from None
        async with socket:
            yield socket


def _reject_redirects() -> aiohttp.TraceConfig:
    """Do not follow redirects: they could lead credentials and messages to another host."""

    async def reject(*_: object) -> None:
        raise UpstreamError("The upstream redirects the websocket, which is not followed.")

    trace_config = aiohttp.TraceConfig()
    trace_config.on_request_redirect.append(reject)
    return trace_config
