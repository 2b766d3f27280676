"""A bounded window over a stream: events wait until so much text has followed that a look has seen their surroundings.

Texts are put together again channel by channel (a choice, a tool call, a reasoning), looked at with some of
what went before, and at the end once more as a whole. At most `hold` characters for each channel that has any wait,
and the event that they stand in; what cannot be the beginning of anything does not wait at all. Whoever looks
stops the stream by raising.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sidecar.response_scan.extraction import Piece
from sidecar.response_scan.placeholders import Placeholders, escaped, open_from
from sidecar.response_scan.sse import Event

BEFORE = 384
"""Characters that went before, which every look sees again."""
WHOLE = 64 * 1024
"""Characters of a stream kept for the look at the end."""
STEP = 256
"""Characters after which a stream that is not held back is looked at."""
SILENT = 1_024
"""Events that wait beside those with a character that may: more say nothing, and everything goes."""
CHANNELS = 256
"""Channels of one stream told apart; what comes in further ones is looked at piece by piece."""
Look = Callable[[str, str], Awaitable[None]]
Free = Callable[[str], tuple[int, bool]]
"""How many characters of a text that goes on need not wait, and whether only after a look at it."""


@dataclass(slots=True)
class _Channel:
    """One running text: what was looked at lately, what was not yet, and all of it as far as it is kept.

    `come` characters of it have come and `free` of them need not wait; `rest` is the text behind those.
    """

    path: str
    before: str = ""
    fresh: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    looks: int = 0
    come: int = 0
    free: int = 0
    rest: str = ""


class Window:
    """`look` is given a text and its path. `hold` 0 lets everything through at once and looks beside it.

    Without `free` everything waits for the whole of `hold`.
    """

    def __init__(
        self, look: Look, hold: int, placeholders: Placeholders | None = None, free: Free | None = None
    ) -> None:
        self._look = look
        self._hold = hold
        self._free = free
        self._ends: deque[dict[str, int]] = deque()
        self._placeholders = placeholders
        self._channels: dict[str, _Channel] = {}
        self._queue: deque[Event] = deque()
        self._held: Counter[str] = Counter()
        self._waiting = 0
        self._unseen = 0
        self._kept = 0

    async def add(self, event: Event) -> list[Event]:
        """Take an event in; what may go now, in order."""
        for piece in event.pieces:
            await self._take(piece, event)
        self._ends.append(
            {p.channel: self._channels[p.channel].come for p in event.pieces if p.channel in self._channels}
        )
        self._queue.append(event)
        self._waiting += event.size
        self._held.update(piece.channel for piece in event.pieces if piece.channel)
        most = self._hold * max(1, len(self._held))
        if event.last or len(self._queue) > most + SILENT:
            return await self.finish()
        if self._free:
            await self._let_go(self._free, event)
        if self._unseen >= (STEP if not self._hold else most) or (self._hold and self._after_head() >= most):
            await self._look_at_fresh()
            return self._released(most * 2 // 3)
        return self._released(most)

    async def _let_go(self, free: Free, event: Event) -> None:
        """Work out anew what need not wait of the channels in which something was said."""
        for name in {piece.channel for piece in event.pieces if piece.channel in self._channels}:
            channel = self._channels[name]
            size, unsure = free(channel.rest)
            if unsure:
                await self._look_at_fresh()
            channel.free, channel.rest = channel.free + size, channel.rest[size:]

    @property
    def waits(self) -> bool:
        """Whether anything is held back."""
        return bool(self._queue)

    async def pause(self) -> list[Event]:
        """Nothing has come for a while: look at what there is, and let it go but for a name that is not complete."""
        await self._look_at_fresh()
        return self._released(0)

    async def finish(self) -> list[Event]:
        """Look at all that is left, and at each channel as a whole; then everything goes."""
        await self._look_at_fresh()
        for channel in self._channels.values():
            if channel.looks > 1:
                channel.looks = 1
                await self._look("".join(channel.whole), channel.path)
        if self._placeholders:
            self._restore(self._placeholders)
        return self._released(-1)

    async def _take(self, piece: Piece, event: Event) -> None:
        if piece.channel and (piece.channel in self._channels or len(self._channels) < CHANNELS):
            channel = self._channels.setdefault(piece.channel, _Channel(piece.path))
            channel.fresh.append(piece.text)
            channel.come += len(piece.text)
            channel.rest += piece.text if self._free else ""
            self._unseen += len(piece.text)
            self._kept += len(piece.text)
            if self._kept <= WHOLE:
                channel.whole.append(piece.text)
            return
        await self._look(piece.text, piece.path)
        if self._placeholders and self._placeholders.found(piece.text):
            piece.put(self._placeholders.restore(piece.text, json=piece.json))
            event.changed = True

    async def _look_at_fresh(self) -> None:
        self._unseen = 0
        for channel in self._channels.values():
            if channel.fresh:
                text = channel.before + "".join(channel.fresh)
                channel.fresh.clear()
                channel.before, channel.looks = text[-BEFORE:], channel.looks + 1
                await self._look(text, channel.path)

    def _after_head(self) -> int:
        return self._waiting - self._queue[0].size if self._queue else 0

    def _released(self, keep: int) -> list[Event]:
        """Events from the head on, while more than `keep` characters follow; those that need not wait at once."""
        if not self._goes(keep):
            return []
        cut_off = self._restore(self._placeholders) if self._placeholders and keep >= 0 else set()
        released: list[Event] = []
        while self._goes(keep):
            if id(self._queue[0]) in cut_off and self._waiting < 4 * (keep + BEFORE):
                break
            event = self._queue.popleft()
            self._catch_up(self._ends.popleft())
            self._waiting -= event.size
            self._held -= Counter(piece.channel for piece in event.pieces if piece.channel)
            released.append(event)
        return released

    def _goes(self, keep: int) -> bool:
        """Whether the event at the head is to go."""
        return bool(self._queue) and (self._after_head() >= keep or not self._queue[0].size or self._is_free())

    def _is_free(self) -> bool:
        """Whether nothing in the event at the head need wait."""
        channels = {piece.channel for piece in self._queue[0].pieces if piece.channel}
        ends = self._ends[0]
        return bool(self._free) and channels == ends.keys() and all(ends[n] <= self._channels[n].free for n in ends)

    def _catch_up(self, ends: dict[str, int]) -> None:
        """What has gone waits no more, whyever it went."""
        for name, end in ends.items():
            channel = self._channels[name]
            if end > channel.free:
                channel.free, channel.rest = end, channel.rest[end - channel.free :]

    def _restore(self, placeholders: Placeholders) -> set[int]:
        """Put values back into what waits; which events hold the beginning of a name that is not complete."""
        waiting: dict[str, list[tuple[Event, Piece]]] = {}
        for event in self._queue:
            for piece in event.pieces:
                if piece.channel:
                    waiting.setdefault(piece.channel, []).append((event, piece))
        cut_off: set[int] = set()
        for held in waiting.values():
            text = "".join(piece.text for _, piece in held)
            if "<" not in text:
                continue
            for start, end, value in reversed(placeholders.found(text)):
                self._waiting += _replace(held, start, end, value)
            if (begin := open_from("".join(piece.text for _, piece in held))) is not None:
                cut_off.update(id(event) for event in _over(held, begin))
        return cut_off


def _over(held: list[tuple[Event, Piece]], begin: int) -> list[Event]:
    """The event in which this offset of the texts together lies, and those behind it."""
    overlapping, offset = [], 0
    for event, piece in held:
        offset += len(piece.text)
        if offset > begin:
            overlapping.append(event)
    return overlapping


def _replace(held: list[tuple[Event, Piece]], start: int, end: int, value: str) -> int:
    """The value where the name begins, nothing in the other pieces that it went through; how much longer it is now."""
    offset = grown = 0
    for event, piece in held:
        size = len(piece.text)
        first, last = max(0, start - offset), min(size, end - offset)
        if first < last:
            put = (escaped(value) if piece.json else value) if start >= offset else ""
            piece.put(piece.text[:first] + put + piece.text[last:])
            event.changed = True
            grown += len(piece.text) - size
        offset += size
    return grown
