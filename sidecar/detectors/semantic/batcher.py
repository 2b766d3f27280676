"""One worker thread that reads texts for many requests, so that the event loop never computes.

A request is read in steps of some milliseconds: all windows by the first stage, then those that it has not settled by
the second, the most suspicious first, within a budget. A window of a longer text that the second stage takes for an
attack is read with two other borders, and the two highest readings are averaged: what is only the chance of a border
falls, and an attack stays one wherever it stands. The requests in hand take turns, new ones first, so a short
prompt does not wait for a long document. A text is read in stretches and its windows are made one by one: what is held
of it are the windows that wait for the second stage. A request is answered with its last window, or after one that was
enough for its caller. One whose caller has left is read no further; what was read is kept for when it comes again.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sidecar.detectors.semantic.artifact import Array, Calibration
from sidecar.detectors.semantic.cascade import Glimpse, Said, Scorer
from sidecar.detectors.semantic.recent_scores import Kept
from sidecar.detectors.semantic.windows import Window, stretches
from sidecar.errors import LayerError
from sidecar.normalization import View, encodable, views

SLICE = 0.05
"""Seconds that one request is read before the others have their turn."""
ALARM = 0.25
"""Probability from which a window of a longer text is read with other borders."""
STRETCH = 32_768
"""Characters of a text whose hidden readings are made at once."""
_EVERYDAY = frozenset({"url", "leet"})


@dataclass(frozen=True, slots=True)
class Text:
    """One text to read, and who wrote it: 0 the user, 1 a third party, 2 the application."""

    text: str
    channel: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """One reading of a stretch of one text, which begins at `at`: the stretch itself or what was decoded from it."""

    text: int
    at: int
    view: View

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Where a place of this reading lies in the text."""
        first, last = self.view.locate(start, end)
        return self.at + first, self.at + last


@dataclass(frozen=True, slots=True)
class Read:
    """What was said of a window, where it stands, and whether the second stage has read it."""

    part: Part
    start: int
    end: int
    logits: Array
    features: Array | None = None
    second: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of the texts: what the second stage has read, and the worst that the first one has settled.

    `windows` counts those of each text, `unsettled` those that are left; `enough`: because one was enough.
    """

    read: tuple[Read, ...]
    windows: tuple[int, ...]
    unsettled: tuple[int, ...]
    enough: bool = False

    def by_text(self) -> list[list[Read]]:
        """The windows read of each text."""
        found: list[list[Read]] = [[] for _ in self.windows]
        for read in self.read:
            found[read.part.text].append(read)
        return found


@dataclass(order=True, slots=True)
class _Open:
    """A window that waits for the second stage. The heap holds the least suspicious first, of equals the last."""

    suspicion: float
    order: int
    part: Part = field(compare=False)
    window: Window = field(compare=False)


@dataclass(slots=True, eq=False)
class _Job:
    """A request in hand."""

    texts: Sequence[Text]
    future: asyncio.Future[Reading]
    enough: float
    windows: list[int]
    unsettled: list[int]
    open: list[_Open] = field(default_factory=list)
    settled: dict[int, Read] = field(default_factory=dict)
    read: list[Read] = field(default_factory=list)
    steps: Iterator[None] | None = None
    satisfied: bool = False

    @property
    def reading(self) -> Reading:
        """The answer, as far as it has come."""
        return Reading((*self.read, *self.settled.values()), tuple(self.windows), tuple(self.unsettled), self.satisfied)


class Reader:
    """Reads texts in its own thread. `close` when done; afterwards every reading fails.

    `budget`: readings of the second stage for one request. `chance`: the probability that a logit of a window stands
    for, by the channel that wrote the text.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        budget: int = 256,
        chance: Callable[[float, int], float] | None = None,
        waiting: int = 512,
        kept: Kept | None = None,
    ) -> None:
        self._scorer = scorer
        self._probability = chance or (lambda logit, _: Calibration().probability(logit))
        self._budget = budget
        self._kept = kept or Kept()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waiting, self._hand = waiting, deque[_Job]()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="semantic", daemon=True)
        self._thread.start()

    async def read(self, texts: Sequence[Text], enough: float | None = None) -> Reading:
        """Read all texts, or until a text has the calibrated probability `enough`.

        Raises `LayerError`: `overload`, `unavailable` or `error`.
        """
        if self._closed:
            raise LayerError("unavailable", "the reader is closed")
        if self._queue.qsize() + len(self._hand) >= self._waiting:
            raise LayerError("overload", "too many texts wait to be read")
        future: asyncio.Future[Reading] = asyncio.get_running_loop().create_future()
        none = [0] * len(texts)
        job = _Job(texts, future, math.inf if enough is None else enough, none, none.copy())
        self._queue.put(job)
        return await future

    async def close(self) -> None:
        """End the thread; requests still waiting fail with `unavailable`. May be called twice."""
        self._closed = True
        self._queue.put(None)
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, 0.05)
        while not self._queue.empty():
            if (job := self._queue.get()) is not None:
                _answer(job, LayerError("unavailable", "the reader is closed"))

    def _run(self) -> None:
        while self._take():
            job = self._hand[0]
            through = self._turn(job)
            self._hand.popleft()
            if not through:
                self._hand.append(job)
        for job in self._hand:
            _answer(job, LayerError("unavailable", "the reader is closed"))
        self._hand.clear()

    def _take(self) -> bool:
        """Take in what waits, before all others; blocks only with empty hands. False: the reader is to close."""
        fresh: list[_Job] = []
        while not self._closed and (not self._queue.empty() or not (self._hand or fresh)):
            if (job := self._queue.get()) is None:
                break
            fresh.append(job)
        self._hand.extendleft(reversed(fresh))
        return not self._closed

    def _turn(self, job: _Job) -> bool:
        """Read on for a while. True: the request is answered, or nobody waits for it any more."""
        until = time.monotonic() + SLICE
        job.steps = job.steps or self._steps(job)
        try:
            while not job.future.done() and not self._closed:
                next(job.steps)
                if time.monotonic() >= until:
                    return False
        except StopIteration:
            _answer(job, job.reading)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any text
            _answer(job, error if isinstance(error, LayerError) else LayerError("error", type(error).__name__))
        else:
            return job.future.done()
        return True

    def _steps(self, job: _Job) -> Iterator[None]:
        """The whole reading, a step at a time."""
        for number, text in enumerate(job.texts):
            for at, stretch in stretches(text.text, STRETCH):
                for view in readings(stretch):
                    yield
                    yield from self._first(job, Part(number, at, view))
        yield from self._second(job)

    def _first(self, job: _Job, part: Part) -> Iterator[None]:
        """All windows of one part by the first stage."""
        channel = job.texts[part.text].channel
        for window in self._scorer.windows(part.view.text):
            job.windows[part.text] += 1
            glimpse = self._glimpse(window, channel)
            leave = self._settle if self._scorer.settles(glimpse) else self._shelve
            leave(job, part, window, glimpse)
            yield

    def _settle(self, job: _Job, part: Part, window: Window, glimpse: Glimpse) -> None:
        """Of the windows that are settled, the worst of each text is kept."""
        said, attack = self._scorer.settled(glimpse), self._scorer.head.attack
        known = job.settled.get(part.text)
        if known is None or said.logits[attack] > known.logits[attack]:
            job.settled[part.text] = Read(part, window.start, window.end, said.logits)

    def _shelve(self, job: _Job, part: Part, window: Window, glimpse: Glimpse) -> None:
        """Leave a window to the second stage; what is beyond the budget in any case is only counted."""
        job.unsettled[part.text] += 1
        heapq.heappush(job.open, _Open(glimpse.suspicion, -sum(job.windows), part, window))
        if len(job.open) > self._budget:
            heapq.heappop(job.open)

    def _second(self, job: _Job) -> Iterator[None]:
        """The windows that are not settled, the most suspicious first."""
        spent = 0
        for one in sorted(job.open, reverse=True):
            if spent >= self._budget:
                return
            part, window, channel = one.part, one.window, job.texts[one.part.text].channel
            said = self._said(window, channel)
            spent += said.cost
            if self._is_alarm(said, window, part.view.text, channel):
                yield
                said, cost = self._again(said, window, part.view.text, channel)
                spent += cost
            job.unsettled[part.text] -= 1
            read = Read(part, window.start, window.end, said.logits, said.features, True)
            job.read.append(read)
            if self.probability(read, channel) >= job.enough:
                job.satisfied = True
                return
            yield

    def _is_alarm(self, said: Said, window: Window, text: str, channel: int) -> bool:
        longer = bool(text[: window.start].strip() or text[window.end :].strip())
        return longer and self._chance(said.logits, channel) >= ALARM

    def _again(self, said: Said, window: Window, text: str, channel: int) -> tuple[Said, int]:
        """The mean of the two highest of this reading and those with other borders, and what those cost."""
        others = [self._said(other, channel) for other in self._scorer.around(text, window)]
        attack = self._scorer.head.attack
        best = sorted([said, *others], key=lambda one: float(one.logits[attack]), reverse=True)[:2]
        mean = np.asarray(sum(one.logits for one in best) / len(best), dtype=np.float32)
        return replace(best[0], logits=mean), sum(one.cost for one in others)

    def probability(self, read: Read, channel: int) -> float:
        """The calibrated probability that a text of this channel is an attack, by this one of its windows."""
        return self._chance(read.logits, channel)

    def _chance(self, logits: Array, channel: int) -> float:
        return self._probability(float(logits[self._scorer.head.attack]), channel)

    def _glimpse(self, window: Window, channel: int) -> Glimpse:
        key = self._kept.key(b"first", window, channel)
        if not isinstance(found := self._kept.get(key), Glimpse):
            found = self._scorer.glimpse(window, channel)
            self._kept.put(key, found)
        return found

    def _said(self, window: Window, channel: int) -> Said:
        key = self._kept.key(b"second", window, channel)
        if not isinstance(found := self._kept.get(key), Said):
            found = self._scorer.read(window, channel)
            self._kept.put(key, found)
        return found


def readings(text: str) -> Iterator[View]:
    """The text, and what was hidden in it. Links and look-alike digits are everyday and no second reading."""
    yield View(encodable(text))
    yield from (view for view in views(text) if view.hidden and _EVERYDAY.isdisjoint(view.path))


def _answer(job: _Job, answer: Reading | LayerError) -> None:
    """Hand the answer to the loop that waits for it, if it still does."""

    def settle() -> None:
        if job.future.done():
            return
        if isinstance(answer, LayerError):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)

    try:
        job.future.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return
