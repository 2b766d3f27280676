"""Websocket proxy: relays messages one by one; client messages are scanned, upstream messages are not.

Each client message is scanned as a request and gets its own decision. A refused message is not forwarded: the client
gets an error event in the format of the API, and the socket stays open. Messages stay in order; a client that sends
faster than they are scanned is slowed down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from sidecar.errors import BodyError, RequestError
from sidecar.proxy.exchange import Exchange
from sidecar.server.headers import KEY_PREFIX, protocols
from sidecar.server.middleware import new_decision_id
from sidecar.server.responses import error_body
from sidecar.server.server import SHUTTING_DOWN, mark_upgraded, was_cut
from sidecar.upstream import Upstream, UpstreamRequest
from sidecar.util import json

HEARTBEAT = 30.0
"""Seconds between pings; a peer that does not answer one is considered disconnected."""

ScanMessage = Callable[[Exchange, str | bytes], Awaitable[None]]
RefuseMessage = Callable[[Exchange, RequestError | None], web.Response]


class WebSocketProxy:
    """Relays websockets.

    `scan` scans a message; `refuse` creates and records the response to a refused one; `record` records an allowed one.
    `max_bytes`: size limit of a message.
    """

    def __init__(
        self,
        upstream: Upstream,
        scan: ScanMessage,
        refuse: RefuseMessage,
        record: Callable[[Exchange, int], None],
        *,
        max_bytes: int,
    ) -> None:
        self._upstream, self._max_bytes = upstream, max_bytes
        self._scan, self._refuse, self._record = scan, refuse, record

    async def serve(self, exchange: Exchange, upstream_request: UpstreamRequest) -> web.WebSocketResponse:
        """Relay until either side closes. Raises `UpstreamError` if the upstream does not accept the websocket."""
        if not web.WebSocketResponse().can_prepare(exchange.request):
            raise BodyError("malformed", "The request is no handshake of a websocket (RFC 6455, 4.2.1).")
        subprotocols = [name for name in protocols(exchange.request.headers) if KEY_PREFIX not in name]
        async with self._upstream.connect_websocket(upstream_request, subprotocols, self._max_bytes) as upstream:
            accepted = [upstream.protocol] if upstream.protocol else []
            client = web.WebSocketResponse(protocols=accepted, max_msg_size=self._max_bytes, heartbeat=HEARTBEAT)
            client.headers.update(exchange.headers)
            await client.prepare(exchange.request)
            mark_upgraded(exchange.request)
            exchange.has_response = True
            self._record(exchange, 101)
            to_client = asyncio.ensure_future(_relay_to_client(upstream, client))
            try:
                await self._relay_to_upstream(exchange, client, upstream)
            finally:
                await _finish_although_cancelled(_close(exchange.request, to_client, upstream, client))
            return client

    async def _relay_to_upstream(
        self, handshake: Exchange, client: web.WebSocketResponse, upstream: aiohttp.ClientWebSocketResponse
    ) -> None:
        async for message in client:
            if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                break
            refusal = await self._refusal_event(handshake, message.data)
            if refusal is not None:
                await client.send_str(refusal.decode())
            elif upstream.closed:
                break
            elif message.type is WSMsgType.TEXT:
                await upstream.send_str(message.data)
            else:
                await upstream.send_bytes(message.data)

    async def _refusal_event(self, handshake: Exchange, message: str | bytes) -> bytes | None:
        """Scan one message; returns the error event for the client if it is refused, else None."""
        exchange = Exchange(
            handshake.request, new_decision_id(), handshake.route, trusted_proxies=handshake.trusted_proxies
        )
        try:
            await self._scan(exchange, message)
        except RequestError as error:
            response = self._refuse(exchange, error)
            body = error_body(error, "openai")
            body["error"]["sidecar"] = {"decision": exchange.id}
            return _event(exchange, body, response.status)
        if exchange.outcome.blocked:
            response = self._refuse(exchange, None)
            return _event(exchange, json.loads(response.text or ""), response.status)
        self._record(exchange, 200)
        return None


async def _relay_to_client(upstream: aiohttp.ClientWebSocketResponse, client: web.WebSocketResponse) -> None:
    """Relay upstream messages; close the client's socket when the upstream closes."""
    async for message in upstream:
        if message.type is WSMsgType.TEXT:
            await client.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await client.send_bytes(message.data)
    await client.close(code=_sendable_code(upstream.close_code))


async def _close(
    request: web.Request,
    to_client: asyncio.Task[None],
    upstream: aiohttp.ClientWebSocketResponse,
    client: web.WebSocketResponse,
) -> None:
    """Close both sides: the client's with a reason if the sidecar stops, the upstream's with the client's code."""
    if not upstream.closed:  # otherwise its last messages are still being relayed
        to_client.cancel()
    await asyncio.gather(to_client, return_exceptions=True)
    if was_cut(request):
        await client.close(code=WSCloseCode.GOING_AWAY, message=SHUTTING_DOWN.encode())
    await upstream.close(code=_sendable_code(client.close_code))


async def _finish_although_cancelled(work: Coroutine[Any, Any, None]) -> None:
    """Complete bounded work even if the caller is cancelled, as happens when the client disconnects."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _sendable_code(code: int | None) -> int:
    """A close code that may be sent: codes reserved for local use must not be (RFC 6455, 7.4.1)."""
    return code if code is not None and code not in {1005, 1006, 1015} and 1000 <= code < 5000 else 1000


def _event(exchange: Exchange, body: Any, status: int) -> bytes:
    """An error event in the format of both APIs."""
    return json.dumps({"type": "error", "event_id": f"event_{exchange.id}", "status": status, **body})
