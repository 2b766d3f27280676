"""A client's websocket, passed on message by message: what the client sends is scanned, what comes back is not.

Every message is a request of its own to the scanner, and gets a decision of its own. One that is refused does not go
up; the client reads an error event in the manner of the API, and the socket stays open. Messages stay in order, and a
client that sends faster than they are scanned waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from sidecar.errors import BodyError, RequestError
from sidecar.proxy.exchange import Call
from sidecar.server.headers import KEY_PREFIX, protocols
from sidecar.server.middleware import new_decision_id
from sidecar.server.responses import error_body
from sidecar.server.server import SHUTTING_DOWN, mark_upgraded, was_cut
from sidecar.upstream import Upstream, UpstreamRequest
from sidecar.util import json

HEARTBEAT = 30.0
"""Seconds between two pings; a peer that does not answer one is gone."""

Judge = Callable[[Call, str | bytes], Awaitable[None]]
Refuse = Callable[[Call, RequestError | None], web.Response]


class Sockets:
    """Passes websockets on.

    `judge` scans a message; `refuse` makes the answer to one that may not go up, and records it; `record` keeps the
    decision of one that may. `most`: bytes of a message.
    """

    def __init__(
        self, upstream: Upstream, judge: Judge, refuse: Refuse, record: Callable[[Call, int], None], *, most: int
    ) -> None:
        self._upstream, self._judge, self._refuse, self._record, self._most = upstream, judge, refuse, record, most

    async def serve(self, call: Call, outgoing: UpstreamRequest) -> web.WebSocketResponse:
        """Until either side closes. Raises `UpstreamError` if the upstream does not take the socket."""
        if not web.WebSocketResponse().can_prepare(call.request):
            raise BodyError("malformed", "The request is no handshake of a websocket (RFC 6455, 4.2.1).")
        spoken = [name for name in protocols(call.request.headers) if KEY_PREFIX not in name]
        async with self._upstream.connect_websocket(outgoing, spoken, self._most) as up:
            chosen = [up.protocol] if up.protocol else []
            down = web.WebSocketResponse(protocols=chosen, max_msg_size=self._most, heartbeat=HEARTBEAT)
            down.headers.update(call.headers)
            await down.prepare(call.request)
            mark_upgraded(call.request)
            call.answered = True
            self._record(call, 101)
            back = asyncio.ensure_future(_pass_back(up, down))
            try:
                await self._pass_up(call, down, up)
            finally:
                await _to_its_end(_close(call.request, back, up, down))
            return down

    async def _pass_up(self, opened: Call, down: web.WebSocketResponse, up: aiohttp.ClientWebSocketResponse) -> None:
        async for message in down:
            if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                break
            refused = await self._refused(opened, message.data)
            if refused is not None:
                await down.send_str(refused.decode())
            elif up.closed:
                break
            elif message.type is WSMsgType.TEXT:
                await up.send_str(message.data)
            else:
                await up.send_bytes(message.data)

    async def _refused(self, opened: Call, message: str | bytes) -> bytes | None:
        """Scan one message; the event that the client gets in its stead if it may not go up."""
        call = Call(opened.request, new_decision_id(), opened.route)
        try:
            await self._judge(call, message)
        except RequestError as error:
            answer = self._refuse(call, error)
            body = error_body(error, "openai")
            body["error"]["sidecar"] = {"decision": call.id}
            return _event(call, body, answer.status)
        if call.outcome.blocked:
            answer = self._refuse(call, None)
            return _event(call, json.loads(answer.text or ""), answer.status)
        self._record(call, 200)
        return None


async def _pass_back(up: aiohttp.ClientWebSocketResponse, down: web.WebSocketResponse) -> None:
    """What the upstream says, as it says it; when it closes, so does the client's socket."""
    async for message in up:
        if message.type is WSMsgType.TEXT:
            await down.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await down.send_bytes(message.data)
    await down.close(code=_sendable(up.close_code))


async def _close(
    request: web.Request, back: asyncio.Task[None], up: aiohttp.ClientWebSocketResponse, down: web.WebSocketResponse
) -> None:
    """Close both sides: the client's with the reason if the sidecar stops, the upstream's with the client's code."""
    if not up.closed:  # else its last messages are on their way to the client
        back.cancel()
    await asyncio.gather(back, return_exceptions=True)
    if was_cut(request):
        await down.close(code=WSCloseCode.GOING_AWAY, message=SHUTTING_DOWN.encode())
    await up.close(code=_sendable(down.close_code))


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do bounded work to its end although the caller is cancelled, as it is when its client leaves."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _sendable(code: int | None) -> int:
    """A code that may be sent: those that only say how a connection was lost may not (RFC 6455, 7.4.1)."""
    return code if code is not None and code not in {1005, 1006, 1015} and 1000 <= code < 5000 else 1000


def _event(call: Call, body: Any, status: int) -> bytes:
    """An error event as both APIs have it."""
    return json.dumps({"type": "error", "event_id": f"event_{call.id}", "status": status, **body})
