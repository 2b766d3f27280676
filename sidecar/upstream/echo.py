"""The built-in upstream `echo://`: repeats the last user text, in the exact shapes of the OpenAI API.

For trying out the inline proxy and for tests, without an account, network or model. No HTTP is involved; a client
sees what a server would have sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from multidict import CIMultiDict

from sidecar.upstream import echo_shapes as shapes
from sidecar.upstream.message import UpstreamRequest, UpstreamResponse
from sidecar.upstream.websockets import UnsupportedWebSocket
from sidecar.util import json

JSON = "application/json"
EVENTS = "text/event-stream"
_BUILDERS = {
    "/chat/completions": (shapes.chat, shapes.chat_events),
    "/completions": (shapes.completion, shapes.completion_events),
    "/responses": (shapes.response, shapes.response_events),
    "/messages": (shapes.message, shapes.message_events),
    "/embeddings": (shapes.embeddings, None),
    "/moderations": (shapes.moderation, None),
}


class EchoUpstream:
    """Answers every known route immediately, in process."""

    @asynccontextmanager
    async def send(self, request: UpstreamRequest) -> AsyncIterator[UpstreamResponse]:
        """See `Upstream`. A body that is not a JSON object is answered with 400."""
        yield _respond(request.method, request.target.partition("?")[0], await _read(request.body))

    def connect_websocket(
        self, _request: UpstreamRequest, _protocols: Sequence[str], _max_size: int
    ) -> UnsupportedWebSocket:
        """See `Upstream`: websockets are not supported."""
        return UnsupportedWebSocket()

    async def close(self) -> None:
        """Nothing to close."""


class _EchoResponse:
    """A response that is generated while it is read."""

    def __init__(self, status: int, headers: Mapping[str, str], parts: Iterable[bytes]) -> None:
        self.status = status
        self.reason = HTTPStatus(status).phrase
        self.headers = CIMultiDict(headers)
        self._parts = parts

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `UpstreamResponse`: one event at a time."""
        for part in self._parts:
            yield part


async def _read(body: bytes | AsyncIterator[bytes] | None) -> bytes:
    if body is None or isinstance(body, bytes):
        return body or b""
    return b"".join([chunk async for chunk in body])


def _respond(method: str, path: str, raw: bytes) -> _EchoResponse:
    if method in {"GET", "HEAD"} and path.endswith("/models"):
        return _json(200, shapes.models())
    # `/chat/completions` is listed before its suffix `/completions`.
    builders = next((pair for suffix, pair in _BUILDERS.items() if path.endswith(suffix)), None)
    if method != "POST" or builders is None:
        return _json(404, shapes.error(f"{method} {path} is not a route of the echo upstream.", "not_found"))
    document = _parse(raw)
    if document is None:
        return _json(400, shapes.error("The body is not a JSON object.", "invalid_json"))
    build, build_events = builders
    if build_events is None or document.get("stream") is not True:
        return _json(200, build(document))
    return _EchoResponse(200, {"Content-Type": EVENTS}, build_events(document))


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(raw)
    except json.DecodeError:
        return None
    return document if isinstance(document, dict) else None


def _json(status: int, value: object) -> _EchoResponse:
    body = json.dumps(value)
    return _EchoResponse(status, {"Content-Type": JSON, "Content-Length": str(len(body))}, (body,))
