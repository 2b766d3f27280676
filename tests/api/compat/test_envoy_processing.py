"""Twin of sidecar/api/compat/envoy_processing.py: what a stream says to the proxy. Whole ones: test_envoy_processor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from envoy_stream import Script, piece
from multidict import CIMultiDict

from sidecar.api.compat.envoy import PREFIX, prefixed_settings
from sidecar.api.compat.envoy_direction import BodyMode
from sidecar.api.compat.envoy_messages import ProcessingRequest
from sidecar.api.compat.envoy_processing import EnvoyResponse, EnvoyStream, Timeouts
from sidecar.config import Settings
from sidecar.errors import BodyError, RequestError, Unavailable, UpstreamError
from sidecar.server.body import Oversize
from sidecar.server.headers import upstream_headers
from sidecar.upstream import UpstreamRequest

DUPLEX = BodyMode.FULL_DUPLEX_STREAMED
SOON = Timeouts(first_byte=0.05, idle=0.05)


def stream(line: Script, mode: BodyMode = DUPLEX, response: BodyMode = DUPLEX, **headers: str) -> EnvoyStream:
    """A stream of a request with a body."""
    received = CIMultiDict(headers)
    forwarded = upstream_headers(received, decoded=False)
    return EnvoyStream(line, received, (mode, response), SOON, has_body=True, forwarded=forwarded)


def response(line: Script, *headers: tuple[str, str], mode: BodyMode = DUPLEX) -> EnvoyResponse:
    """A response with these headers and a body."""
    fields = [{"key": key, "raw_value": value.encode()} for key, value in headers]
    head = ProcessingRequest(response_headers={"headers": {"headers": fields}}).response_headers
    return EnvoyResponse(line, mode, head, SOON.idle)


@pytest.mark.parametrize(
    ("mode", "error"),
    [(BodyMode.NONE, Oversize), (BodyMode.BUFFERED_PARTIAL, Unavailable), (BodyMode.UNKNOWN, Unavailable)],
)
async def test_a_body_that_does_not_come_whole_is_an_error(mode: BodyMode, error: type[RequestError]) -> None:
    """Of the kind that the failure policy knows; nothing was replied, so nothing has gone on."""
    line = Script(("request_body", {"body": b"x", "end_of_stream": True}))
    with pytest.raises(error) as raised:
        await stream(line, mode).readany()
    assert ("request_body_mode" in raised.value.detail, line.replies) == (True, [])


async def test_a_compressed_body_needs_a_mode_in_which_its_header_can_change() -> None:
    """In STREAMED the headers have gone before the body is read."""
    line = Script(("request_body", {"body": b"x", "end_of_stream": True}))
    with pytest.raises(BodyError, match="BUFFERED"):
        await stream(line, BodyMode.STREAMED, **{"Content-Encoding": "gzip"}).readany()
    assert await stream(line, BodyMode.BUFFERED, **{"Content-Encoding": "gzip"}).readany() == b"x"


@pytest.mark.parametrize("mode", list(BodyMode))
def test_a_response_is_shown_in_the_modes_with_a_whole_body(mode: BodyMode) -> None:
    """Which the proxy asks before it lets a request go."""
    shown = {BodyMode.BUFFERED, BodyMode.STREAMED, DUPLEX}
    assert stream(Script(), response=mode).shows_responses is (mode in shown)


async def test_a_model_that_does_not_answer_is_a_504() -> None:
    """Envoy's own timeouts come first as a rule."""

    class Silent(Script):
        async def receive(self) -> tuple[str, Any]:
            """Nothing, for long."""
            await asyncio.sleep(60)
            return "", None

    request = UpstreamRequest("POST", "/", CIMultiDict(), b"x")
    with pytest.raises(UpstreamError) as raised:
        async with _sent(stream(Silent()), request):
            pass
    assert raised.value.status == 504
    with pytest.raises(UpstreamError):
        await anext(response(Silent()).chunks())


def _sent(carrier: EnvoyStream, request: UpstreamRequest) -> Any:
    carrier.request.is_read = True
    return carrier.send(request, {})


async def test_the_end_of_the_stream_is_a_client_that_left() -> None:
    """While the model works; the handler is cancelled then, as inline."""
    with pytest.raises(asyncio.CancelledError):
        async with _sent(stream(Script()), UpstreamRequest("POST", "/", CIMultiDict(), b"x")):
            pass


async def test_a_response_has_status_headers_and_body() -> None:
    """Repeated headers included; a status that is none is a 502; a body that Envoy keeps is empty."""
    line = Script(piece(b"a"), piece(b"b", last=True))
    received = response(line, (":status", "201"), ("set-cookie", "a"), ("set-cookie", "b"))
    assert (received.status, received.headers.getall("Set-Cookie")) == (201, ["a", "b"])
    assert [chunk async for chunk in received.chunks()] == [b"a", b"b"]
    assert response(line, (":status", "x")).status == 502
    assert [chunk async for chunk in response(line, mode=BodyMode.NONE).chunks()] == []


def test_the_settings_are_those_of_the_inline_proxy() -> None:
    """With the prefix of the checks, and without websockets, which Envoy does not show."""
    settings = prefixed_settings(Settings(pii="redact", history="strip", block={"style": "refusal"}))
    assert (settings.pii, settings.history, settings.block.style) == ("redact", "strip", "refusal")
    assert all(prefix.startswith(PREFIX) for prefix in settings.inline.prefixes)
