"""The built-in upstream `echo://`: repeats the last user text, in the exact shapes of the OpenAI API.

For trying the inline door out and for tests, without account, network or model. No HTTP is spoken; what
a client sees is what a server would have sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from multidict import CIMultiDict

from sidecar.upstream import echo_shapes as shapes
from sidecar.upstream.message import Answer, Outgoing
from sidecar.upstream.websockets import NoSocket
from sidecar.util import json

JSON = "application/json"
EVENTS = "text/event-stream"
_MAKERS = {
    "/chat/completions": (shapes.chat, shapes.chat_events),
    "/completions": (shapes.completion, shapes.completion_events),
    "/responses": (shapes.response, shapes.response_events),
    "/messages": (shapes.message, shapes.message_events),
    "/embeddings": (shapes.embeddings, None),
    "/moderations": (shapes.moderation, None),
}


class EchoUpstream:
    """Answers every known route at once, in process."""

    @asynccontextmanager
    async def send(self, request: Outgoing) -> AsyncIterator[Answer]:
        """See `Upstream`. A body that is not a JSON object is answered with 400."""
        yield _answer(request.method, request.target.partition("?")[0], await _read(request.body))

    def dial(self, _request: Outgoing, _protocols: Sequence[str], _most: int) -> NoSocket:
        """See `Upstream`: there is nobody at the other end."""
        return NoSocket()

    async def close(self) -> None:
        """Nothing to let go of."""


class _EchoAnswer:
    """An answer that is made as it is read."""

    def __init__(self, status: int, content_type: str, parts: Iterator[bytes]) -> None:
        self.status = status
        self.reason = HTTPStatus(status).phrase
        self.headers = CIMultiDict({"Content-Type": content_type})
        self._parts = parts

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer`: one event at a time."""
        for part in self._parts:
            yield part


async def _read(body: bytes | AsyncIterator[bytes] | None) -> bytes:
    if body is None or isinstance(body, bytes):
        return body or b""
    return b"".join([chunk async for chunk in body])


def _answer(method: str, path: str, raw: bytes) -> _EchoAnswer:
    if method in {"GET", "HEAD"} and path.endswith("/models"):
        return _json(200, shapes.models())
    # `/chat/completions` goes before `/completions`, whose end it shares.
    makers = next((found for suffix, found in _MAKERS.items() if path.endswith(suffix)), None)
    if method != "POST" or makers is None:
        return _json(404, shapes.error(f"{method} {path} is not a route of the echo upstream.", "not_found"))
    document = _parse(raw)
    if document is None:
        return _json(400, shapes.error("The body is not a JSON object.", "invalid_json"))
    whole, events = makers
    if events is None or document.get("stream") is not True:
        return _json(200, whole(document))
    return _EchoAnswer(200, EVENTS, events(document))


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(raw)
    except json.DecodeError:
        return None
    return document if isinstance(document, dict) else None


def _json(status: int, value: object) -> _EchoAnswer:
    return _EchoAnswer(status, JSON, iter([json.dumps(value)]))
