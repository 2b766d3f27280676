"""Twin of sidecar/api/compat/envoy_direction.py: replies to messages that were written down."""

from __future__ import annotations

import asyncio

import pytest
from envoy_stream import Script, piece
from multidict import CIMultiDict

from sidecar.api.compat.envoy_direction import (
    ACKNOWLEDGE_SECONDS,
    PIECE,
    BodyMode,
    Direction,
    header_changes,
    header_map,
    without_pseudo,
)
from sidecar.api.compat.envoy_messages import ProcessingRequest
from sidecar.errors import UpstreamError


async def drained(direction: Direction) -> bytes:
    """All that arrives."""
    return b"".join([chunk async for chunk in direction.chunks()])


async def test_a_duplex_body_waits_for_nothing_and_goes_in_pieces() -> None:
    """Nothing is sent before it is written; large parts are split, and the last says so."""
    line = Script(piece(b"a"), piece(b"b", last=True))
    direction = Direction(line, "response", BodyMode.FULL_DUPLEX_STREAMED, has_body=True)
    assert (await direction.read(), line.replies, direction.is_open) == (b"a", [], True)
    await direction.write(b"x" * (PIECE + 1))
    assert await drained(direction) == b"b"
    await direction.write(b"y")
    await direction.finish(b"z")
    streamed = [reply.response_body.response.body_mutation.streamed_response for reply in line.replies[1:]]
    assert line.replies[0].HasField("response_headers")
    assert [(len(item.body), item.end_of_stream) for item in streamed] == [(PIECE, False), (1, False), (2, True)]
    assert not direction.is_open


async def test_a_buffered_body_is_replaced_with_its_length() -> None:
    """One reply for all, with the headers; what was not changed is not sent back."""
    lines = [Script(piece(b"abc", last=True)) for _ in range(2)]
    directions = [Direction(line, "response", BodyMode.BUFFERED, has_body=True, has_length=True) for line in lines]
    for direction, data in zip(directions, (b"abc", b"longer"), strict=True):
        await drained(direction)
        direction.change_headers(header_changes(CIMultiDict(), CIMultiDict({"x-a": "1"})))
        await direction.finish(data)
    same, changed = (line.replies[-1].response_body.response for line in lines)
    assert not same.HasField("body_mutation")
    assert changed.body_mutation.body == b"longer"
    headers = {item.header.key: item.header.raw_value for item in changed.header_mutation.set_headers}
    assert headers == {"x-a": b"1", "content-length": b"6"}


async def test_each_streamed_piece_has_a_reply_and_nothing_is_lost() -> None:
    """What is held is taken out of the replies, and goes on with the last."""
    line = Script(piece(b"a"), piece(b"b"), piece(b"", last=True))
    direction = Direction(line, "response", BodyMode.STREAMED, has_body=True)
    assert await drained(direction) == b"ab"
    direction.change_headers(
        header_changes(CIMultiDict(), CIMultiDict({"x-late": "1"}))
    )  # too late: the headers have gone
    await direction.finish(b"AB")
    bodies = [reply.response_body.response.body_mutation for reply in line.replies if reply.HasField("response_body")]
    assert [(item.clear_body, item.body) for item in bodies] == [(True, b""), (True, b""), (False, b"AB")]
    assert not any(reply.response_body.response.HasField("header_mutation") for reply in line.replies)


async def test_a_silent_upstream_does_not_keep_envoy_waiting() -> None:
    """A piece gets its reply before the next one comes, since Envoy's message_timeout runs."""
    line = Script(piece(b"a"), piece(b"b", last=True), pause=10 * ACKNOWLEDGE_SECONDS)
    direction = Direction(line, "response", BodyMode.STREAMED, has_body=True)
    await direction.read()
    waiting = asyncio.ensure_future(direction.read())
    await asyncio.sleep(4 * ACKNOWLEDGE_SECONDS)
    assert (waiting.done(), line.replies[-1].response_body.response.body_mutation.clear_body) == (False, True)
    assert await waiting == b"b"


async def test_a_written_piece_goes_on_at_once() -> None:
    """With the reply to the piece that came last."""
    line = Script(piece(b"a"), piece(b"b", last=True))
    direction = Direction(line, "response", BodyMode.STREAMED, has_body=True)
    await direction.read()
    await direction.write(b"A")
    assert line.replies[-1].response_body.response.body_mutation.body == b"A"


async def test_what_is_held_goes_with_the_next_piece() -> None:
    """Where every piece has its reply already, and something has to go on before the end."""
    line = Script(piece(b"a"), piece(b"b"), piece(b"c", last=True))
    direction = Direction(line, "response", BodyMode.STREAMED, has_body=True)
    await direction.read()
    await direction.write(b"A")
    await direction.write(b"error")
    await direction.deliver()
    bodies = [reply.response_body.response.body_mutation.body for reply in line.replies]
    assert bodies[1:] == [b"A", b"error"]


async def test_a_body_that_ends_early_is_an_error() -> None:
    """The end of the stream, or another message, is not the end of the body."""
    for line in (Script(piece(b"a")), Script(piece(b"a"), ("request_body", {"body": b"x"}))):
        direction = Direction(line, "response", BodyMode.FULL_DUPLEX_STREAMED, has_body=True)
        with pytest.raises(UpstreamError):
            await drained(direction)


async def test_trailers_end_a_body_and_are_removed() -> None:
    """In a duplex stream no piece is the last then."""
    line = Script(piece(b"a"), ("response_trailers", {"trailers": {"headers": [{"key": "x-t"}]}}))
    direction = Direction(line, "response", BodyMode.FULL_DUPLEX_STREAMED, has_body=True)
    assert await drained(direction) == b"a"
    await direction.finish(b"a")
    assert not line.replies[1].response_body.response.body_mutation.streamed_response.end_of_stream
    assert list(line.replies[2].response_trailers.header_mutation.remove_headers) == ["x-t"]


@pytest.mark.parametrize("mode", list(BodyMode))
async def test_without_a_body_the_headers_are_all(mode: BodyMode) -> None:
    """One reply in every mode, with the changes."""
    line = Script()
    direction = Direction(line, "response", mode, has_body=False)
    received = CIMultiDict({"x-sidecar-a": "1", "x-b": "1"})
    direction.change_headers(header_changes(received, CIMultiDict({"x-b": "1", "x-c": "1"})))
    await direction.finish()
    [reply] = line.replies
    mutation = reply.response_headers.response.header_mutation
    assert list(mutation.remove_headers) == ["x-sidecar-a"]
    assert [item.header.key for item in mutation.set_headers] == ["x-c"]


def test_headers_of_a_connection_are_envoys() -> None:
    """They are neither removed nor set, nor is the length; a header that is set is not removed first."""
    received = CIMultiDict(dict.fromkeys(("Connection", "Content-Length", "Host", "x-a", "X-B"), "1"))
    changes = header_changes(received, CIMultiDict({"x-b": "2", "Content-Length": "5"}))
    assert changes["remove_headers"] == ["x-a"]
    assert [option["header"]["key"] for option in changes["set_headers"]] == ["x-b"]


def test_of_several_headers_of_a_name_only_those_to_send_remain() -> None:
    """The first of them takes the place of all, the others are added to it; equal ones are left as they are."""
    received = CIMultiDict(
        [("Authorization", "Bearer psk_1"), ("Authorization", "Bearer m"), ("x-a", "1"), ("X-A", "2")]
    )
    sent = CIMultiDict([("Authorization", "Bearer m"), ("x-a", "1"), ("x-a", "2"), ("x-b", "1"), ("x-b", "2")])
    options = header_changes(received, sent)["set_headers"]
    named = [(option["header"]["key"], option["header"]["raw_value"], "append" in option) for option in options]
    assert named == [("authorization", b"Bearer m", False), ("x-b", b"1", False), ("x-b", b"2", True)]


def test_headers_are_read_in_both_forms() -> None:
    """As bytes or text, without those that begin with a colon."""
    fields = [{"key": ":path", "raw_value": b"/"}, {"key": "x-a", "value": "1"}, {"key": "x-b", "raw_value": b"\xff"}]
    message = ProcessingRequest(request_headers={"headers": {"headers": fields}})
    received = header_map(message.request_headers.headers)
    assert received[":path"] == "/"
    assert dict(without_pseudo(received)) == {"x-a": "1", "x-b": "\ufffd"}


def test_a_mode_of_a_newer_envoy_is_unknown() -> None:
    """And is refused as that."""
    assert BodyMode(17) is BodyMode.UNKNOWN


async def test_an_early_answer_of_the_upstream_is_named() -> None:
    """In STREAMED the headers go on first, and the upstream may answer to them alone."""
    line = Script(("request_body", {"body": b"a"}), ("response_headers", {}))
    direction = Direction(line, "request", BodyMode.STREAMED, has_body=True)
    with pytest.raises(UpstreamError, match="answered before"):
        await drained(direction)
