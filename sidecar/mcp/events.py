"""Server-sent events that hold messages: each is scanned, and passes as received, changed, or not at all."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable

from sidecar.errors import BodyError
from sidecar.mcp.session import Inspection, Session
from sidecar.response_scan.sse import split_events
from sidecar.scan.service import ScanContext

SendReply = Callable[[bytes], Awaitable[None]]
_LINE = re.compile(rb"\r\n|\n|\r")
_OTHER_ENDS = re.compile(rb"[\x0b\x0c\x1c-\x1e]|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""What ends a line for clients that use `str.splitlines()`, in UTF-8."""
_BOM = b"\xef\xbb\xbf"


class EventScanner:
    """Scans the events of one stream. `reply` answers a refused request of the server."""

    def __init__(self, session: Session, context: ScanContext, reply: SendReply) -> None:
        self._session, self._context, self._reply = session, context, reply

    async def events(self, chunk: bytes) -> AsyncIterator[bytes]:
        """The events to send for these, which are whole."""
        for raw in split_events(chunk):
            inspection, data = await self._inspect(raw)
            if inspection.reply is not None:
                await self._reply(inspection.reply)
            if inspection.forward is data:
                yield raw
            elif inspection.forward is not None:
                yield _with_data(raw, inspection.forward)

    async def _inspect(self, raw: bytes) -> tuple[Inspection, bytes]:
        lines = _LINE.split(raw.removeprefix(_BOM).strip(b"\r\n"))
        data = b"\n".join(_value(line) for line in lines if line == b"data" or line.startswith(b"data:"))
        if _is_ambiguous(lines):
            error = BodyError("malformed", "An event can be divided into lines in several ways.")
            return self._session.unreadable(data, error, self._context, from_server=True), data
        if not data.strip():
            return Inspection(data), data  # a comment, or an id to resume from
        return await self._session.inspect(data, self._context, from_server=True), data


def _is_ambiguous(lines: list[bytes]) -> bool:
    """Whether a client could find other lines: it would end the event at an empty one, or divide one of the others."""
    others = [line for line in lines if not line.startswith(b"data:")]
    return not all(lines[1:]) or any(_OTHER_ENDS.search(line) for line in others)


def _value(line: bytes) -> bytes:
    return line[5:].removeprefix(b" ")


def _with_data(raw: bytes, data: bytes) -> bytes:
    """The event with its name and id, and other data, which holds no line break."""
    lines = _LINE.split(raw.removeprefix(_BOM))
    other_lines = [line for line in lines if line and line != b"data" and not line.startswith(b"data:")]
    return b"\n".join([*other_lines, b"data: " + data, b"", b""])
