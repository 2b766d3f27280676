"""A bounded hold-back buffer: stream events are held until a scan has seen their text in context.

Texts are reassembled by channel (a choice, a tool call, a reasoning), scanned with some of the preceding text, and once
more as a whole at the end. At most `hold` characters are held for each channel with held text, plus the event that they
are in; text in which no match can start is not held at all. The scan callback stops the stream by raising.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sidecar.response_scan.extraction import Piece
from sidecar.response_scan.placeholders import Placeholders, escaped, partial_start
from sidecar.response_scan.sse import Event

CONTEXT_CHARACTERS = 384
"""Characters of preceding text that every scan includes."""
MAX_WHOLE = 64 * 1024
"""Characters of a stream kept for the scan at the end."""
SCAN_STEP = 256
"""Characters after which a stream without a hold is scanned."""
MAX_SILENT_EVENTS = 1_024
"""Events without text held beside those with text; more of them release everything."""
MAX_CHANNELS = 256
"""Channels tracked for one stream; pieces of further channels are scanned one by one."""
Scan = Callable[[str, str], Awaitable[None]]
Releasable = Callable[[str], tuple[int, bool]]
"""How many characters of an unfinished text can be released, and whether only after a scan."""


@dataclass(slots=True)
class _Channel:
    """One streamed text: recently scanned `context`, `fresh` text not yet scanned, and the `whole` as far as kept.

    `received` characters have arrived, `releasable` of them can be released; `pending` is the text after those.
    """

    path: str
    context: str = ""
    fresh: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    scans: int = 0
    received: int = 0
    releasable: int = 0
    pending: str = ""


class StreamBuffer:
    """`scan` is given a text and its path. `hold` 0 releases every event at once and still scans.

    Without `releasable` every event is held for the full `hold`.
    """

    def __init__(
        self, scan: Scan, hold: int, placeholders: Placeholders | None = None, releasable: Releasable | None = None
    ) -> None:
        self._scan = scan
        self._hold = hold
        self._find_releasable = releasable
        self._ends: deque[dict[str, int]] = deque()
        self._placeholders = placeholders
        self._channels: dict[str, _Channel] = {}
        self._queue: deque[Event] = deque()
        self._queued_channels: Counter[str] = Counter()
        self._waiting = 0
        self._unscanned = 0
        self._stored = 0

    async def add(self, event: Event) -> list[Event]:
        """Add an event; returns the events to release now, in order."""
        for piece in event.pieces:
            await self._append(piece, event)
        self._ends.append(
            {p.channel: self._channels[p.channel].received for p in event.pieces if p.channel in self._channels}
        )
        self._queue.append(event)
        self._waiting += event.size
        self._queued_channels.update(piece.channel for piece in event.pieces if piece.channel)
        # Invariant: after `add`, fewer than `limit` characters follow the head event, unless an open placeholder keeps
        # it. What is due by length alone was scanned together with the text that follows it.
        limit = self._hold * max(1, len(self._queued_channels))
        if event.last or len(self._queue) > limit + MAX_SILENT_EVENTS:
            return await self.finish()
        if self._find_releasable:
            await self._update_releasable(self._find_releasable, event)
        if self._unscanned >= (SCAN_STEP if not self._hold else limit) or (self._hold and self._after_head() >= limit):
            await self._scan_fresh()
            return self._release(limit * 2 // 3)
        return self._release(limit)

    async def _update_releasable(self, releasable: Releasable, event: Event) -> None:
        """Recompute the releasable prefix of the channels in this event."""
        for name in {piece.channel for piece in event.pieces if piece.channel in self._channels}:
            channel = self._channels[name]
            size, needs_scan = releasable(channel.pending)
            if needs_scan:
                await self._scan_fresh()
            channel.releasable, channel.pending = channel.releasable + size, channel.pending[size:]

    @property
    def is_holding(self) -> bool:
        """Whether any event is held."""
        return bool(self._queue)

    async def pause(self) -> list[Event]:
        """No event arrived for a while: scan and release everything except an incomplete placeholder."""
        await self._scan_fresh()
        return self._release(0)

    async def finish(self) -> list[Event]:
        """Scan the rest, and each channel as a whole; then release everything."""
        await self._scan_fresh()
        for channel in self._channels.values():
            if channel.scans > 1:
                channel.scans = 1
                await self._scan("".join(channel.whole), channel.path)
        if self._placeholders:
            self._restore(self._placeholders)
        return self._release(-1)

    async def _append(self, piece: Piece, event: Event) -> None:
        if piece.channel and (piece.channel in self._channels or len(self._channels) < MAX_CHANNELS):
            channel = self._channels.setdefault(piece.channel, _Channel(piece.path))
            channel.fresh.append(piece.text)
            channel.received += len(piece.text)
            channel.pending += piece.text if self._find_releasable else ""
            self._unscanned += len(piece.text)
            self._stored += len(piece.text)
            if self._stored <= MAX_WHOLE:
                channel.whole.append(piece.text)
            return
        await self._scan(piece.text, piece.path)
        if self._placeholders and self._placeholders.find_all(piece.text):
            piece.replace(self._placeholders.restore(piece.text, json=piece.json))
            event.changed = True

    async def _scan_fresh(self) -> None:
        self._unscanned = 0
        for channel in self._channels.values():
            if channel.fresh:
                text = channel.context + "".join(channel.fresh)
                channel.fresh.clear()
                channel.context, channel.scans = text[-CONTEXT_CHARACTERS:], channel.scans + 1
                await self._scan(text, channel.path)

    def _after_head(self) -> int:
        return self._waiting - self._queue[0].size if self._queue else 0

    def _release(self, keep: int) -> list[Event]:
        """Pop events from the head while more than `keep` characters follow it, or it need not be held."""
        if not self._is_head_due(keep):
            return []
        cut_off = self._restore(self._placeholders) if self._placeholders and keep >= 0 else set()
        released: list[Event] = []
        while self._is_head_due(keep):
            if id(self._queue[0]) in cut_off and self._waiting < 4 * (keep + CONTEXT_CHARACTERS):
                break
            event = self._queue.popleft()
            self._mark_released(self._ends.popleft())
            self._waiting -= event.size
            self._queued_channels -= Counter(piece.channel for piece in event.pieces if piece.channel)
            released.append(event)
        return released

    def _is_head_due(self, keep: int) -> bool:
        """Whether the head event can be released."""
        return bool(self._queue) and (
            self._after_head() >= keep or not self._queue[0].size or self._is_head_releasable()
        )

    def _is_head_releasable(self) -> bool:
        """Whether nothing in the head event must be held."""
        channels = {piece.channel for piece in self._queue[0].pieces if piece.channel}
        ends = self._ends[0]
        return (
            bool(self._find_releasable)
            and channels == ends.keys()
            and all(ends[n] <= self._channels[n].releasable for n in ends)
        )

    def _mark_released(self, ends: dict[str, int]) -> None:
        """Released text is not held again, whatever released it."""
        for name, end in ends.items():
            channel = self._channels[name]
            if end > channel.releasable:
                channel.releasable, channel.pending = end, channel.pending[end - channel.releasable :]

    def _restore(self, placeholders: Placeholders) -> set[int]:
        """Restore placeholders in the held events; returns the events that contain the start of an incomplete one."""
        waiting: dict[str, list[tuple[Event, Piece]]] = {}
        for event in self._queue:
            for piece in event.pieces:
                if piece.channel:
                    waiting.setdefault(piece.channel, []).append((event, piece))
        cut_off: set[int] = set()
        for pieces in waiting.values():
            text = "".join(piece.text for _, piece in pieces)
            if "<" not in text:
                continue
            for start, end, value in reversed(placeholders.find_all(text)):
                self._waiting += _replace_span(pieces, start, end, value)
            if (begin := partial_start("".join(piece.text for _, piece in pieces))) is not None:
                cut_off.update(id(event) for event in _events_after(pieces, begin))
        return cut_off


def _events_after(pieces: list[tuple[Event, Piece]], begin: int) -> list[Event]:
    """The event that contains this offset of the joined texts, and those after it."""
    overlapping, offset = [], 0
    for event, piece in pieces:
        offset += len(piece.text)
        if offset > begin:
            overlapping.append(event)
    return overlapping


def _replace_span(pieces: list[tuple[Event, Piece]], start: int, end: int, value: str) -> int:
    """Put the value into the piece where the name begins and cut the name out of the others.

    Returns by how many characters the texts have grown.
    """
    # `start` and `end` are offsets in the joined texts, `offset` is where the current piece begins in them.
    offset = growth = 0
    for event, piece in pieces:
        size = len(piece.text)
        first, last = max(0, start - offset), min(size, end - offset)
        if first < last:
            replacement = (escaped(value) if piece.json else value) if start >= offset else ""
            piece.replace(piece.text[:first] + replacement + piece.text[last:])
            event.changed = True
            growth += len(piece.text) - size
        offset += size
    return growth
