"""One direction of a stream of Envoy's `ext_proc`: what Envoy sends of a request or a response, and the replies to it.

From the documentation of Envoy 1.40 (`service/ext_proc/v3`, and `processing_mode.proto` of the filter). The mode of the
body decides what a reply can still change:

- `FULL_DUPLEX_STREAMED`: nothing goes on before we send it, so headers and body wait for the verdict.
- `BUFFERED`: the body comes in one message after the reply to the headers, and both go on with the reply to it.
- `STREAMED`: the headers go on before the body comes, and each piece of it needs a reply of its own, in order. What is
  held is taken out of these replies, and goes on with a later one.
- `NONE` and the rest: there is no body, or not all of it, or it cannot be replaced. Nothing is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import Any, Protocol

from aiohttp import web
from multidict import CIMultiDict, MultiMapping

from sidecar.errors import UpstreamError
from sidecar.server.headers import HOP_BY_HOP

CONNECTION_HEADERS = HOP_BY_HOP | {"host", "content-length", "expect"}
"""Headers that Envoy itself handles."""
OVERWRITE = 2
"""The action on a header that replaces those of the same name."""
PIECE = 64 * 1024
"""Bytes of a body in one reply of a duplex stream, as Envoy's documentation recommends."""
ACKNOWLEDGE_SECONDS = 0.05
"""After which a piece of a `STREAMED` body gets its reply, though there is nothing to release yet."""


class BodyMode(IntEnum):
    """How Envoy sends a body. `UNKNOWN`: it did not say."""

    UNKNOWN = -1
    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX_STREAMED = 4
    GRPC = 5

    @classmethod
    def _missing_(cls, value: object) -> BodyMode:  # noqa: ARG003 - of a newer Envoy
        return cls.UNKNOWN


WHOLE = frozenset({BodyMode.STREAMED, BodyMode.BUFFERED, BodyMode.FULL_DUPLEX_STREAMED})
"""Modes in which Envoy sends the whole body, and sends on what it gets back."""


class Line(Protocol):
    """The messages of a stream."""

    async def receive(self) -> tuple[str, Any]:
        """The name of the next message and the message; an empty name at the end of the stream."""
        ...

    async def send(self, **reply: Any) -> None:
        """Send the reply of this name."""
        ...


class Direction:
    """The request or the response. `name`: `request` or `response`; `has_body`: as its headers say."""

    def __init__(self, line: Line, name: str, mode: BodyMode, *, has_body: bool, has_length: bool = False) -> None:
        self._line, self._name, self.mode = line, name, mode
        self._has_body, self._has_length = has_body, has_length
        self._mutation: dict[str, Any] | None = None
        self._is_begun = False
        self.is_read = not has_body
        """Whether Envoy has sent all of the body."""
        self._whole: bytes | None = None
        self._pending: list[bytes] = []
        self._is_unanswered = 0
        self._trailers: Any = None

    @property
    def is_open(self) -> bool:
        """Whether nothing has gone on yet: another message can still take the place of all."""
        return not self._is_begun or (self.mode is BodyMode.BUFFERED and self._has_body)

    def change_headers(self, mutation: dict[str, Any]) -> None:
        """Send this change with the next reply, if that can still carry it."""
        if self.is_open:
            self._mutation = mutation

    async def begin(self) -> None:
        """Reply to the headers, once."""
        if not self._is_begun:
            self._is_begun = True
            await self._line.send(**{f"{self._name}_headers": {"response": self._with_headers({})}})

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises `UpstreamError` if the stream ends before it."""
        while not self.is_read:
            if data := await self.read():
                yield data

    async def read(self) -> bytes:
        """The next piece of the body, perhaps empty."""
        if self.mode is not BodyMode.FULL_DUPLEX_STREAMED:
            await self.begin()
        name, message = await self._receive()
        if name == f"{self._name}_trailers":
            self.is_read, self._trailers = True, message
            return b""
        if (self._name, name) == ("request", "response_headers"):
            raise UpstreamError("The upstream answered before the body was scanned.")
        if name != f"{self._name}_body":
            raise UpstreamError(f"Envoy ended the {self._name} before its body.")
        if self.mode is BodyMode.BUFFERED:
            self._whole = message.body
        await self.flush()
        self._is_unanswered += self.mode is BodyMode.STREAMED
        self.is_read = message.end_of_stream or self.mode is BodyMode.BUFFERED
        return bytes(message.body)

    async def write(self, data: bytes) -> None:
        """Send on a part of the body, as soon as the mode allows."""
        if self.mode is BodyMode.FULL_DUPLEX_STREAMED and not self.is_read:
            await self.begin()
            await self._stream(data, is_last=False)
            return
        self._pending.append(
            data
        )  # in a duplex stream, what is written after the last piece was read goes with the end
        if not self.is_read:
            await self.flush()

    async def flush(self) -> None:
        """Send on what is held, if a piece of a `STREAMED` body has no reply yet."""
        if self._is_unanswered:
            await self._acknowledge()

    async def deliver(self) -> None:
        """Send on what is held before the end: with the reply to the next piece, if none is without."""
        if self.mode is BodyMode.FULL_DUPLEX_STREAMED:
            await self._stream(b"".join(self._pending), is_last=False)
            return
        if any(self._pending) and not self._is_unanswered and not self.is_read:
            await self.read()
        await self.flush()

    async def finish(self, data: bytes = b"") -> None:
        """Send on the last part of the body. What Envoy still sends of its own is discarded."""
        if self.mode in WHOLE:
            async for _ in self.chunks():
                pass
        await self.begin()
        self._pending.append(data)
        if self.mode is BodyMode.FULL_DUPLEX_STREAMED:
            await self._finish_duplex(b"".join(self._pending))
        elif self._whole is not None or self._is_unanswered:
            await self._reply(b"".join(self._pending))
        elif any(self._pending):
            raise UpstreamError("Envoy takes no more of the body.")
        self._pending, self._whole = [], None
        if self._trailers is not None:
            await self.drop_trailers(self._trailers)

    async def drop_trailers(self, message: Any) -> None:
        """Reply to trailers, which no layer reads: they are removed."""
        names = sorted({field.key for field in message.trailers.headers})
        await self._line.send(**{f"{self._name}_trailers": {"header_mutation": {"remove_headers": names}}})

    async def _receive(self) -> tuple[str, Any]:
        """The next message. A piece without a reply gets one if the next does not come soon."""
        if not self._is_unanswered:
            return await self._line.receive()
        receiving = asyncio.ensure_future(self._line.receive())
        try:
            await asyncio.wait({receiving}, timeout=ACKNOWLEDGE_SECONDS)
            if not receiving.done():
                await self.flush()
            return await receiving
        finally:
            receiving.cancel()

    async def _acknowledge(self) -> None:
        """Reply to the oldest piece of a `STREAMED` body with what can go on."""
        data, self._pending = b"".join(self._pending), []
        await self._reply(data)

    async def _reply(self, data: bytes) -> None:
        self._is_unanswered -= self.mode is BodyMode.STREAMED
        response: dict[str, Any] = {}
        if data != self._whole:
            response["body_mutation"] = {"body": data} if data else {"clear_body": True}
            self._set_length(len(data))
        await self._line.send(**{f"{self._name}_body": {"response": self._with_headers(response)}})

    def _set_length(self, size: int) -> None:
        """Envoy refuses a buffered body that its Content-Length does not fit."""
        if self.mode is BodyMode.BUFFERED and self._has_length:
            mutation = self._mutation or {}
            length = header_options(CIMultiDict({"content-length": str(size)}))
            self._mutation = {**mutation, "set_headers": [*mutation.get("set_headers", ()), *length]}

    def _with_headers(self, response: dict[str, Any]) -> dict[str, Any]:
        mutation, self._mutation = self._mutation, None
        return response | ({"header_mutation": mutation} if mutation else {})

    async def _finish_duplex(self, data: bytes) -> None:
        if self._has_body and (data or self._trailers is None):
            await self._stream(data, is_last=self._trailers is None)

    async def _stream(self, data: bytes, *, is_last: bool) -> None:
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)] or [b""]
        for number, piece in enumerate(pieces, 1):
            streamed = {"body": piece, "end_of_stream": is_last and number == len(pieces)}
            body = {"response": {"body_mutation": {"streamed_response": streamed}}}
            await self._line.send(**{f"{self._name}_body": body})


def header_options(headers: MultiMapping[str], *, raw: bool = True) -> list[dict[str, Any]]:
    """Headers to set, in place of all others of that name. `raw`: as bytes, which `ext_authz` does not read."""
    options, names = [], set[str]()
    for name, value in headers.items():
        low = name.lower()
        field = {"raw_value": value.encode("utf-8", "surrogateescape")} if raw else {"value": value}
        # Envoy takes the action that adds, which is the default, for none at all, and overwrites.
        action = {"append": {"value": True}} if low in names else {"append_action": OVERWRITE}
        names.add(low)
        options.append({"header": {"key": low} | field} | action)
    return options


def header_differences(current: MultiMapping[str], target: MultiMapping[str]) -> tuple[list[str], CIMultiDict[str]]:
    """The names to remove and the headers to set, which turn the current ones into the target.

    Envoy itself handles the headers of its connections and the length.
    """
    removals, changes = [], CIMultiDict[str]()
    for name in sorted({name.lower() for name in (*current, *target)} - CONNECTION_HEADERS):
        values = target.getall(name, [])
        if not values:
            removals.append(name)
        elif values != current.getall(name, []):
            changes.extend((name, value) for value in values)
    return removals, changes


def header_changes(current: MultiMapping[str], target: MultiMapping[str]) -> dict[str, Any]:
    """What Envoy has to change, which turns the current headers into the target."""
    removals, changes = header_differences(current, target)
    return {"remove_headers": removals, "set_headers": header_options(changes)}


def header_map(message: Any) -> CIMultiDict[str]:
    """All headers that Envoy sent, those that begin with a colon included."""
    fields = ((field.key, field.raw_value.decode("utf-8", "replace") or field.value) for field in message.headers)
    return CIMultiDict(fields)


def own_headers(response: web.StreamResponse) -> CIMultiDict[str]:
    """The headers of a response of ours that Envoy can send."""
    headers = response.headers.items()
    return CIMultiDict((name, value) for name, value in headers if name.lower() not in CONNECTION_HEADERS)


def without_pseudo(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """The headers that a client or a server sent."""
    return CIMultiDict((name, value) for name, value in headers.items() if not name.startswith(":"))
