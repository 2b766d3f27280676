"""Holds the events of a stream from the first piece of a tool call, or of a link, until that has been judged.

Text before it has passed already. `hold` False releases every event at once and still judges: for `actions.mode: flag`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from sidecar.actions.atoms import LINK
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
MAX_CHANNELS = 1_000
"""Texts of a stream that are open at once; of more the oldest is taken as ended."""


class ActionGate:
    """The judges raise to withhold the rest of the stream. `judge_text`: None if links are not judged.

    `max_bytes`: of events from the first piece of what is unfinished. More is an error, and without `hold` a call is
    judged as far as it came then.
    """

    def __init__(self, judge_calls: JudgeCalls, judge_text: JudgeText | None, *, hold: bool, max_bytes: int) -> None:
        self._judge_calls, self._judge_text = judge_calls, judge_text
        self._hold, self._max_bytes = hold, max_bytes
        self._calls = StreamCalls()
        self._texts: dict[str, str] = {}
        self._open_links: set[str] = set()
        self._queue: deque[Event] = deque()
        self._open_bytes = 0

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
        await self._end_texts()
        return self._release()

    async def _end_texts(self) -> None:
        while self._texts:
            await self._end_oldest()

    async def _add(self, event: Event) -> list[Event]:
        self._queue.append(event)
        self._open_bytes += len(event.raw)
        calls = self._calls.observe(event.document)
        if calls := calls + self._calls.finish() if event.last else calls:
            await self._judge_calls(calls)
        for piece in event.pieces:
            if self._judge_text and not piece.json:
                await self._add_text(self._judge_text, piece.channel or piece.path, piece.text, whole=not piece.channel)
        if event.last:
            await self._end_texts()
        if not (self._calls.is_open or self._open_links) or event.last:
            self._open_bytes = 0
            return self._release()
        if self._open_bytes > self._max_bytes:
            await self._overflow()
        return [] if self._hold else self._release()

    async def _overflow(self) -> None:
        if self._hold:
            raise UpstreamError("The upstream sent a tool call that is too large (answers.body_bytes).")
        self._open_bytes = 0
        await self._judge_calls(self._calls.finish())

    async def _end_oldest(self) -> None:
        """Forget the oldest text, and judge a link that is unfinished at its end."""
        channel, text = next(iter(self._texts.items()))
        del self._texts[channel]
        if channel in self._open_links and self._judge_text:
            self._open_links.discard(channel)
            await self._judge_text(text, channel)

    async def _add_text(self, judge_text: JudgeText, channel: str, text: str, *, whole: bool) -> None:
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
            await judge_text(finished, channel)
        if len(self._texts) > MAX_CHANNELS:
            await self._end_oldest()

    def _release(self) -> list[Event]:
        events = list(self._queue)
        self._queue.clear()
        return events


def _finished(text: str) -> int:
    """The length of a text without a link, or the beginning of one, that its next piece may go on with."""
    links = deque(LINK.finditer(text) if "://" in text else (), maxlen=1)
    last = links[0] if links else None
    if last and last.end() == len(text):
        return last.start() if len(last.group()) < WINDOW else len(text)
    beginning = _BEGINNING.search(text, max(0, len(text) - len("https:/") - 1))
    return beginning.start() if beginning else len(text)
