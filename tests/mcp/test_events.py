"""Tests of events that hold messages: as received, with other data, or not at all."""

from __future__ import annotations

import json

import pytest
from inline_proxy import RecordedDecisionLog, WordScanner

from sidecar.config import Settings
from sidecar.mcp.events import EventScanner
from sidecar.mcp.session import McpScanner, Session
from sidecar.scan.service import ScanContext, ScanService

FINE = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"fine"}]}}'
EVIL = FINE.replace(b"fine", b"EVIL")
ASKED = b'{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"systemPrompt":"EVIL"}}'


async def events(chunk: bytes) -> tuple[list[bytes], list[bytes]]:
    """The events that are sent, and the replies to the server."""
    settings, replies = Settings(), list[bytes]()
    service = ScanService(WordScanner(), settings, RecordedDecisionLog())  # type: ignore[arg-type]

    async def reply(content: bytes) -> None:
        replies.append(content)

    scanner = EventScanner(Session(McpScanner(settings, service, "notes")), ScanContext("", "mcp", "/mcp/x"), reply)
    return [event async for event in scanner.events(chunk)], replies


@pytest.mark.parametrize(
    "chunk",
    [
        b"event: message\nid: 7\ndata: " + FINE + b"\n\n",
        b"data:" + FINE + b"\r\n\r\n",
        b'data: {"jsonrpc":"2.0",\ndata: "id":1,"result":{}}\n\n',
        b": keepalive\n\n",
        b"id: 3\ndata:\n\n",
        b"retry: 3000\r\r",
    ],
)
async def test_an_event_passes_as_it_was_received(chunk: bytes) -> None:
    """Names, ids, comments and line ends."""
    assert await events(chunk) == ([chunk], [])


async def test_a_refused_answer_keeps_the_id_of_its_event() -> None:
    """So that a client can resume after it."""
    (event,), replies = await events(b"event: message\r\nid: 7\r\ndata: " + EVIL + b"\r\n\r\n")
    lines = event.split(b"\n")
    assert lines[:2] == [b"event: message", b"id: 7"]
    assert json.loads(lines[2].removeprefix(b"data: "))["error"]
    assert (lines[3:], replies) == ([b"", b""], [])


async def test_a_refused_request_of_the_server_is_answered_and_not_sent() -> None:
    """The others of the chunk pass."""
    sent, replies = await events(b"data: " + ASKED + b"\n\ndata: " + FINE + b"\n\n")
    assert sent == [b"data: " + FINE + b"\n\n"]
    assert json.loads(replies[0])["id"] == "s1"


async def test_a_refused_event_behind_a_byte_order_mark_is_replaced() -> None:
    """The mark is no part of the first line."""
    (event,), _ = await events(b"\xef\xbb\xbfdata: " + EVIL + b"\n\n")
    assert b"EVIL" not in event
    assert json.loads(event.removeprefix(b"data: "))["error"]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
async def test_an_event_with_other_ends_of_lines_outside_its_data_is_dropped(end: str) -> None:
    """Some clients divide there; within the data the texts are scanned anyhow."""
    for start in (": c", "id: 1", "retry: 1", "event: x"):
        chunk = f"{start}{end}data: ".encode() + EVIL
        assert await events(chunk + b"\n\n") == ([], [])
        assert await events(chunk + b"\ndata: " + FINE + b"\n\n") == ([], [])
    fine = b"data: " + FINE.replace(b"fine", "\u2028 \x85".encode()) + b"\n\n"
    assert await events(fine) == ([fine], [])


@pytest.mark.parametrize("chunk", [b"data: " + FINE + b"\n\rdata: " + EVIL + b"\n\n", b"data: no message\n\n"])
async def test_an_event_that_clients_read_differently_is_dropped(chunk: bytes) -> None:
    """`failure.input.malformed`."""
    assert await events(chunk) == ([], [])
