"""Holds the events of a stream from the first piece of a tool call, or of a link, until that has been judged.

Text before it has passed already. `hold` False releases every event at once and still judges: for `actions.mode: flag`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from sidecar.actions.conversation import ToolCall
from sidecar.actions.response_calls import StreamCalls
from sidecar.errors import UpstreamError
from sidecar.response_scan.sse import Event

JudgeCalls = Callable[[list[ToolCall]], Awaitable[None]]
JudgeText = Callable[[str, str], Awaitable[None]]
WINDOW = 2_048
"""Characters of a text that are kept for its next piece, and up to which an unfinished link is held."""
CONTEXT = 64
"""Characters before a link that are judged with it."""
_BEGINNING = re.compile(r"(?i)(?<![a-z])(?:h|ht|htt|https?|https?:|https?:/)$")
_LINK = re.compile(r"(?i)https?://[^\s<>\"'`\\|{}^\[\])]*")


class ActionGate:
    """The judges raise to withhold the rest of the stream. `max_bytes`: of held events."""

    def __init__(self, judge_calls: JudgeCalls, judge_text: JudgeText, *, hold: bool, max_bytes: int) -> None:
        self._judge_calls, self._judge_text = judge_calls, judge_text
        self._hold, self._max_bytes = hold, max_bytes
        self._calls = StreamCalls()
        self._texts: dict[str, str] = {}
        self._open_links: set[str] = set()
        self._queue: deque[Event] = deque()
        self._held_bytes = 0

    async def pass_on(self, events: Iterable[Event]) -> list[Event]:
        """Take events in; returns those to release now, in order. Raises `UpstreamError` if too much is held."""
        released: list[Event] = []
        for event in events:
            released += await self._add(event)
        return released

    async def finish(self) -> list[Event]:
        """Judge what is unfinished and release the rest."""
        if calls := self._calls.finish():
            await self._judge_calls(calls)
        for channel in list(self._open_links):
            await self._judge_text(self._texts[channel], channel)
        self._open_links.clear()
        return self._release()

    async def _add(self, event: Event) -> list[Event]:
        self._queue.append(event)
        self._held_bytes += len(event.raw)
        calls = self._calls.observe(event.document)
        if calls := calls + self._calls.finish() if event.last else calls:
            await self._judge_calls(calls)
        for piece in event.pieces:
            if not piece.json:
                await self._add_text(piece.channel or piece.path, piece.text, whole=not piece.channel)
        if not self._hold or not (self._calls.is_open or self._open_links) or event.last:
            return self._release()
        if self._held_bytes > self._max_bytes:
            raise UpstreamError("The upstream sent a tool call that is too large (answers.body_bytes).")
        return []

    async def _add_text(self, channel: str, text: str, *, whole: bool) -> None:
        """Judge a text up to its last finished link."""
        known = "" if whole else self._texts.get(channel, "")
        window = known + text
        is_new = whole or channel in self._open_links or "://" in text
        self._open_links.discard(channel)
        end = len(window) if whole else _finished(window)
        if end < len(window):
            self._open_links.add(channel)
        finished, rest = window[:end], window[end:]
        is_judged = is_new and "://" in finished
        if not whole:
            before = finished[-CONTEXT:].rpartition("://")[2] if is_judged else finished
            self._texts[channel] = (before + rest)[-WINDOW:]
        if is_judged:
            await self._judge_text(finished, channel)

    def _release(self) -> list[Event]:
        events = list(self._queue)
        self._queue.clear()
        self._held_bytes = 0
        return events


def _finished(text: str) -> int:
    """The length of a text without a link, or the beginning of one, that its next piece may go on with."""
    links = deque(_LINK.finditer(text) if "://" in text else (), maxlen=1)
    last = links[0] if links else None
    if last and last.end() == len(text):
        return last.start() if len(last.group()) < WINDOW else len(text)
    beginning = _BEGINNING.search(text, max(0, len(text) - len("https:/") - 1))
    return beginning.start() if beginning else len(text)
