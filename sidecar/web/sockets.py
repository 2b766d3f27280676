"""A client's websocket, passed on message by message: what the client sends is scanned, what comes back is not.

Every message is a request of its own to the scanner, and gets a decision of its own. One that is refused does not go
up; the client reads an error event in the manner of the API, and the socket stays open. Messages stay in order, and a
client that sends faster than they are scanned waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from sidecar import jsons
from sidecar.errors import RequestError
from sidecar.upstream import Outgoing, Upstream
from sidecar.web.answers import error_body
from sidecar.web.call import Call
from sidecar.web.middleware import new_decision_id
from sidecar.web.server import ENDING, is_cut

HEARTBEAT = 30.0
"""Seconds between two pings; who does not answer one is gone."""
_SECRET = "openai-insecure-api-key."
"""How browsers hand over a key: among the protocols that they speak."""

Judge = Callable[[Call, bytes], Awaitable[None]]
Refuse = Callable[[Call, RequestError | None], web.Response]


class Sockets:
    """Passes websockets on.

    `judge` scans a message; `refuse` makes the answer to one that may not go up, and records it; `record` keeps the
    decision of one that may. `most`: bytes of a message; `keeps_key`: whether the client's own key goes up.
    """

    def __init__(
        self,
        upstream: Upstream,
        judge: Judge,
        refuse: Refuse,
        record: Callable[[Call, int], None],
        *,
        most: int,
        keeps_key: bool,
    ) -> None:
        self._upstream, self._judge, self._refuse, self._record = upstream, judge, refuse, record
        self._most, self._keeps_key = most, keeps_key

    async def serve(self, call: Call, outgoing: Outgoing) -> web.WebSocketResponse:
        """Until either side closes. Raises `UpstreamError` if the upstream does not take the socket."""
        async with self._upstream.dial(outgoing, self._protocols(call), self._most) as up:
            chosen = [up.protocol] if up.protocol else []
            down = web.WebSocketResponse(protocols=chosen, max_msg_size=self._most, heartbeat=HEARTBEAT)
            down.headers.update(call.headers)
            await down.prepare(call.request)
            call.answered = True
            self._record(call, 101)
            back = asyncio.ensure_future(_pass_back(up, down))
            try:
                await self._pass_up(call, down, up)
            finally:
                await _unhurried(_end(call.request, back, up, down))
            return down

    def _protocols(self, call: Call) -> Sequence[str]:
        asked = ",".join(call.request.headers.getall("Sec-WebSocket-Protocol", ())).split(",")
        names = [name.strip() for name in asked if name.strip()]
        return [name for name in names if self._keeps_key or not name.startswith(_SECRET)]

    async def _pass_up(self, opened: Call, down: web.WebSocketResponse, up: aiohttp.ClientWebSocketResponse) -> None:
        async for message in down:
            if message.type is WSMsgType.TEXT:
                answer = await self._refused(opened, message.data.encode("utf-8", "surrogatepass"))
            elif message.type is WSMsgType.BINARY:
                answer = _event({"error": {"message": "Binary messages are not scanned, and not passed on."}}, 400)
            else:
                break
            if answer is not None:
                await down.send_str(answer.decode())
            elif up.closed:
                break
            else:
                await up.send_str(message.data)

    async def _refused(self, opened: Call, raw: bytes) -> bytes | None:
        """Scan one message; the event that the client gets in its stead if it may not go up."""
        call = Call(opened.request, new_decision_id(), opened.route)
        try:
            await self._judge(call, raw)
        except RequestError as error:
            answer = self._refuse(call, error)
            return _event(error_body(error, "openai"), answer.status)
        if call.action == "block":
            answer = self._refuse(call, None)
            return _event(jsons.loads(answer.text or ""), answer.status)
        self._record(call, 200)
        return None


async def _pass_back(up: aiohttp.ClientWebSocketResponse, down: web.WebSocketResponse) -> None:
    """What the upstream says, as it says it; its end is the client's."""
    async for message in up:
        if message.type is WSMsgType.TEXT:
            await down.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await down.send_bytes(message.data)
    await down.close(code=_sendable(up.close_code))


async def _end(
    request: web.Request, back: asyncio.Task[None], up: aiohttp.ClientWebSocketResponse, down: web.WebSocketResponse
) -> None:
    """Tell both sides: the client, if it is the sidecar that goes, and the upstream what the client has said."""
    back.cancel()
    await asyncio.gather(back, return_exceptions=True)
    if is_cut(request):
        await down.close(code=WSCloseCode.GOING_AWAY, message=ENDING.encode())
    await up.close(code=_sendable(down.close_code))


async def _unhurried(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, which is bounded, though whoever waits for it is cancelled: a client leaves as it says so."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _sendable(code: int | None) -> int:
    """A code that may be sent: those that only say how a connection was lost may not (RFC 6455, 7.4.1)."""
    return code if code is not None and code not in {1005, 1006, 1015} and 1000 <= code < 5000 else 1000


def _event(body: Any, status: int) -> bytes:
    """An error event as both APIs have it."""
    return jsons.dumps({"type": "error", "event_id": f"event_{new_decision_id()}", "status": status, **body})
