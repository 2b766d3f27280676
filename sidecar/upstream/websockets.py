"""A websocket to the upstream (RFC 6455), by aiohttp's client: one connection for each of a client's."""

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
"""Seconds between two pings; a peer that does not answer one is gone."""
_PASSED_ON = frozenset({400, 401, 403, 404, 429})
"""Refusals that are the client's to know; everything else is a 502."""
_NOT_OURS = ("User-Agent", "Accept", "Accept-Encoding")
"""Fields that aiohttp adds by itself."""


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
    """An open websocket; messages are of `most` bytes, and `patience` is for the whole handshake, in seconds.

    Raises `UpstreamError` if the upstream does not take it, or sends the client elsewhere.
    """
    connector = aiohttp.TCPConnector(ssl=tls if tls is not None else True, limit=1, force_close=True)
    address = None if proxy is None else URL.build(scheme="http", host=proxy.host, port=proxy.port)
    fields = {"Proxy-Authorization": proxy.authorization} if proxy is not None and proxy.authorization else None
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        skip_auto_headers=_NOT_OURS,
        trace_configs=[_not_elsewhere()],
    ) as session:
        try:
            async with asyncio.timeout(patience):
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
        except TimeoutError:
            raise UpstreamError("The upstream did not answer in time.", status=504) from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError(f"The upstream did not take the websocket ({type(error).__name__}).") from None
        async with socket:
            yield socket


def _not_elsewhere() -> aiohttp.TraceConfig:
    """A redirect is not followed: it could lead credentials and messages to another host."""

    async def refuse(*_: object) -> None:
        raise UpstreamError("The upstream redirects the websocket, which is not followed.")

    made = aiohttp.TraceConfig()
    made.on_request_redirect.append(refuse)
    return made
