"""Envoy's side of an `ext_proc` stream, over real gRPC: sends one exchange in given modes, and obeys the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from sidecar.api.compat.envoy_direction import BodyMode
from sidecar.api.compat.envoy_messages import PROCESSOR, ProcessingRequest, ProcessingResponse

DUPLEX = BodyMode.FULL_DUPLEX_STREAMED
MODES = (DUPLEX, BodyMode.BUFFERED, BodyMode.STREAMED)
POST = {":method": "POST", ":path": "/v1/chat/completions", ":authority": "model", "content-type": "application/json"}
TIMEOUT = 60.0


@dataclass
class Message:
    """A request or a response as it goes on."""

    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Outcome:
    """What the client got, and what the model got, if anything. `is_cut`: the response had begun and was cut."""

    status: int
    response: Message
    request: Message | None = None
    is_cut: bool = False
    replies: list[Any] = field(default_factory=list)


class Refused(Exception):
    """The sidecar sent an `ImmediateResponse`."""

    def __init__(self, immediate: Any) -> None:
        super().__init__(immediate.status.code)
        self.immediate = immediate


class EnvoyCall:
    """One stream on a channel. `modes`: of the bodies of request and response; None: not said, as by old versions."""

    def __init__(self, channel: Any, modes: tuple[BodyMode, BodyMode] | None) -> None:
        serialize, parse = ProcessingRequest.SerializeToString, ProcessingResponse.FromString
        self._call = channel.stream_stream(f"/{PROCESSOR}/Process", serialize, parse)(timeout=TIMEOUT)
        self._config = (
            None if modes is None else dict(zip(("request_body_mode", "response_body_mode"), modes, strict=True))
        )
        self.modes = modes or MODES[:2]
        self.replies: list[Any] = []
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        reply = None
        while reply is not grpc.aio.EOF:
            reply = await self._call.read()
            await self._received.put(reply)

    async def code(self) -> Any:
        """How the stream ended."""
        return await self._call.code()

    async def send(self, **message: Any) -> None:
        """Send a message; the first one says the modes."""
        config = {"protocol_config": self._config} if self._config else {}
        self._config = None
        await self._call.write(ProcessingRequest(**message, **config))

    async def receive(self) -> tuple[str, Any]:
        """Name and content of the next reply. Raises `Refused`, or `EOFError` at the end."""
        reply = await self._received.get()
        if reply is grpc.aio.EOF:
            raise EOFError
        self.replies.append(reply)
        [(descriptor, value)] = reply.ListFields()
        if descriptor.name == "immediate_response":
            raise Refused(value)
        return descriptor.name, value

    async def close(self) -> None:
        """End the stream, as Envoy does after an exchange."""
        await self._call.done_writing()
        await self._reader

    def cancel(self) -> None:
        """Reset the stream."""
        self._call.cancel()

    async def pass_on(self, name: str, headers: Mapping[str, str], chunks: Sequence[bytes] | None) -> Message:
        """Send a request or a response (`name`), without a body if that is None; returns what goes on."""
        mode, message = self.modes[name == "response"], Message(dict(headers))
        raw = [{"key": key, "raw_value": value.encode()} for key, value in headers.items()]
        await self.send(**{f"{name}_headers": {"headers": {"headers": raw}, "end_of_stream": chunks is None}})
        pieces = [b"".join(chunks)] if mode is BodyMode.BUFFERED and chunks is not None else list(chunks or ())
        if mode is not DUPLEX or chunks is None:
            await self._headers_reply(name, message)
        if chunks is None or mode is BodyMode.NONE:
            message.body = b"".join(pieces)
            return message
        for number, piece in enumerate(pieces, 1):
            await self.send(**{f"{name}_body": {"body": piece, "end_of_stream": number == len(pieces)}})
        if mode is DUPLEX:
            await self._headers_reply(name, message)
            await self._duplex_body(name, message)
            return message
        for piece in pieces:
            message.body += await self._body_reply(name, piece, message)
        return message

    async def _headers_reply(self, name: str, message: Message) -> None:
        kind, reply = await self.receive()
        assert kind == f"{name}_headers"
        apply(message.headers, reply.response.header_mutation)

    async def _body_reply(self, name: str, piece: bytes, message: Message) -> bytes:
        kind, reply = await self.receive()
        assert kind == f"{name}_body"
        apply(message.headers, reply.response.header_mutation)
        mutation = reply.response.body_mutation
        return b"" if mutation.clear_body else bytes(mutation.body) or piece

    async def _duplex_body(self, name: str, message: Message) -> None:
        is_last = False
        while not is_last:
            kind, reply = await self.receive()
            assert kind == f"{name}_body"
            streamed = reply.response.body_mutation.streamed_response
            message.body, is_last = message.body + streamed.body, streamed.end_of_stream


async def exchange(
    channel: Any,
    modes: tuple[BodyMode, BodyMode] | None,
    chunks: Sequence[bytes] | None,
    answer: Sequence[bytes],
    headers: Mapping[str, str] | None = None,
    answer_headers: Mapping[str, str] | None = None,
) -> Outcome:
    """A request with this body, and the model's answer if it passes."""
    call, request, response = EnvoyCall(channel, modes), None, Message({})
    try:
        request = await call.pass_on("request", POST | dict(headers or {}), chunks)
        received = {":status": "200", "content-type": "application/json"} | dict(answer_headers or {})
        response = await call.pass_on("response", received, answer)
    except Refused as refused:
        response = Message({}, refused.immediate.body)
        apply(response.headers, refused.immediate.headers)
        begun = any(reply.HasField("response_headers") for reply in call.replies)
        is_cut = begun and call.modes[1] is not BodyMode.BUFFERED
        await call.close()
        return Outcome(refused.immediate.status.code, response, request, is_cut, call.replies)
    await call.close()
    return Outcome(200, response, request, replies=call.replies)


def apply(headers: dict[str, str], mutation: Any) -> None:
    """Change headers as Envoy does: remove, then set."""
    for name in mutation.remove_headers:
        headers.pop(name, None)
    headers.update({option.header.key: option.header.raw_value.decode() for option in mutation.set_headers})


class Script:
    """A stream whose messages were written down; keeps the replies."""

    def __init__(self, *messages: tuple[str, dict[str, Any]], pause: float = 0.0) -> None:
        self._messages, self._pause = list(messages), pause
        self.replies: list[Any] = []

    async def receive(self) -> tuple[str, Any]:
        """The next message; all but the first after a pause."""
        if not self._messages:
            return "", None
        await asyncio.sleep(self._pause)
        name, value = self._messages.pop(0)
        return name, getattr(ProcessingRequest(**{name: value}), name)

    async def send(self, **reply: Any) -> None:
        """Keep a reply."""
        self.replies.append(ProcessingResponse(**reply))


def piece(data: bytes, *, last: bool = False) -> tuple[str, dict[str, Any]]:
    """A part of the response's body."""
    return "response_body", {"body": data, "end_of_stream": last}
