"""One worker thread that reads texts for many requests at once, so that the event loop never computes.

Requests wait in a bounded queue. The worker takes turns: of every request in hand it reads the next few
windows, all of them together in batches capped in tokens, so that a short prompt never waits for a long
document and memory stays flat. A request is answered with its last window, or after the turn in which one was
enough for its caller; what is left of it is then not read. One whose caller has left is read no further.
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sidecar.errors import LayerError
from sidecar.layers.artefact import Array, Calibration
from sidecar.layers.scorer import Scorer
from sidecar.layers.windows import Cut, Window, batches
from sidecar.views import View, encodable, views

TURN = 8
"""Windows of one request that are read before the others have their turn."""
IN_HAND = 32
"""Requests that the worker reads at the same time."""
_EVERYDAY = frozenset({"url", "leet"})


@dataclass(frozen=True, slots=True)
class Text:
    """One text to read, and whether the model only reads it (nobody said it)."""

    text: str
    indirect: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One reading of one text: the text itself or what was decoded from it, and its count of windows."""

    text: int
    view: View
    windows: int


@dataclass(frozen=True, slots=True)
class Read:
    """A window that was read: of which part, where in it, its logits, and its features if a glance was not enough."""

    part: int
    window: Window
    logits: Array
    features: Array | None


@dataclass(slots=True)
class _Job:
    """A request in hand. `ahead` holds what is still unread: the number of the part, and the window.

    `taken` counts the windows that were taken from it so far, be they read by now or not.
    """

    texts: Sequence[Text]
    future: asyncio.Future[Reading]
    enough: float = math.inf
    ahead: list[tuple[int, Window]] = field(default_factory=list)
    answered: bool = False
    taken: int = 0
    parts: list[Part] = field(default_factory=list)
    read: list[Read] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of the texts, and the parts that were to be read."""

    read: tuple[Read, ...]
    parts: tuple[Part, ...]

    @property
    def unread(self) -> frozenset[int]:
        """The numbers of the texts that were not read to their end."""
        done = Counter(read.part for read in self.read)
        return frozenset(part.text for number, part in enumerate(self.parts) if done[number] < part.windows)

    def by_text(self, count: int) -> list[list[Read]]:
        """The windows read of each of the `count` texts."""
        found: list[list[Read]] = [[] for _ in range(count)]
        for read in self.read:
            found[self.parts[read.part].text].append(read)
        return found


class Reader:
    """Reads texts in its own thread. `close` when done; afterwards every reading fails."""

    def __init__(
        self,
        scorer: Scorer,
        cut: Cut,
        *,
        batch_tokens: int,
        calibration: Calibration | None = None,
        waiting: int = 512,
    ) -> None:
        self._scorer, self._cut = scorer, cut
        self._batch_tokens, self._calibration = batch_tokens, calibration or Calibration()
        self._queue: queue.Queue[_Job | None] = queue.Queue(waiting)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="semantic", daemon=True)
        self._thread.start()

    async def read(self, texts: Sequence[Text], enough: float | None = None) -> Reading:
        """Read all texts, or until a window has the calibrated probability `enough`.

        Raises `LayerError`: `too_long`, `overload`, `unavailable` or `error`.
        """
        if self._closed:
            raise LayerError("unavailable", "the reader is closed")
        job = _Job(texts, asyncio.get_running_loop().create_future(), math.inf if enough is None else enough)
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            raise LayerError("overload", "too many texts wait to be read") from None
        return await job.future

    async def close(self) -> None:
        """End the thread; requests still waiting fail with `unavailable`. May be called twice."""
        self._closed = True
        while self._thread.is_alive():
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                self._fail_one()
            await asyncio.to_thread(self._thread.join, 0.05)
        while not self._queue.empty():
            self._fail_one()

    def _fail_one(self) -> None:
        try:
            job = self._queue.get_nowait()
        except queue.Empty:
            return
        if job is not None:
            _fail(job, LayerError("unavailable", "the reader is closed"))

    def _run(self) -> None:
        jobs: list[_Job] = []
        while True:
            if not self._take(jobs):
                break
            self._turn(jobs)
            jobs = [job for job in jobs if job.ahead and not job.future.done()]
        for job in jobs:
            _fail(job, LayerError("unavailable", "the reader is closed"))

    def _take(self, jobs: list[_Job]) -> bool:
        """Take in what waits, blocking only with empty hands. False: the reader is to close."""
        while len(jobs) < IN_HAND:
            try:
                job = self._queue.get(block=not jobs)
            except queue.Empty:
                break
            if job is None or self._closed:
                if job is not None:
                    _fail(job, LayerError("unavailable", "the reader is closed"))
                return False
            if not job.future.done() and self._open(job):
                jobs.append(job)
        return True

    def _open(self, job: _Job) -> bool:
        """Cut the texts of a request into windows. False: it is answered already."""
        try:
            for number, text in enumerate(job.texts):
                for view in readings(text.text):
                    left = self._cut.most - len(job.ahead)
                    cut = self._scorer.windows(view.text, replace(self._cut, most=left))
                    job.ahead.extend((len(job.parts), window) for window in cut)
                    job.parts.append(Part(number, view, len(cut)))
        except Exception as error:  # noqa: BLE001 - the thread must outlive any text
            _fail(job, error if isinstance(error, LayerError) else LayerError("error", type(error).__name__))
            return False
        if not job.ahead:
            _finish(job)
        return bool(job.ahead)

    def _turn(self, jobs: list[_Job]) -> None:
        """Read the next windows of every request in hand, the short ones first, and answer who is through."""
        turns = [(job, *window) for job in jobs for window in job.ahead[:TURN]]
        for job in jobs:
            job.taken += len(job.ahead[:TURN])
            del job.ahead[:TURN]
        for batch in batches([window for _, _, window in turns], self._batch_tokens):
            for job in self._batch([turns[index] for index in batch]):
                self._answer_if_through(job)

    def _answer_if_through(self, job: _Job) -> None:
        """Only after whole turns: the same text then ends at the same window, whatever is read beside it."""
        if not job.answered and len(job.read) == job.taken and (not job.ahead or self._has_enough(job)):
            job.answered = True
            job.ahead.clear()
            _finish(job)

    def _has_enough(self, job: _Job) -> bool:
        """Whether a window of this turn settles it for the caller."""
        return any(self._probability(job, read) >= job.enough for read in job.read[-TURN:])

    def _probability(self, job: _Job, read: Read) -> float:
        return self._calibration.probability(float(read.logits[self._scorer.head.attack]), job.parts[read.part].windows)

    def _batch(self, turns: Sequence[tuple[_Job, int, Window]]) -> Iterator[_Job]:
        """The request of each window, as soon as the window is read."""
        turns = [turn for turn in turns if not turn[0].answered and not turn[0].future.done()]
        if not turns:
            return
        try:
            said = self._scorer(
                [window for _, _, window in turns],
                [job.texts[job.parts[part].text].indirect for job, part, _ in turns],
            )
        except Exception as error:  # noqa: BLE001 - the thread must outlive any batch
            for job, _, _ in turns:
                job.answered = True
                job.ahead.clear()
                _fail(job, LayerError("error", type(error).__name__))
            return
        for (job, part, window), one in zip(turns, said, strict=True):
            if not job.answered:
                job.read.append(Read(part, window, one.logits, one.features))
                yield job


def readings(text: str) -> Iterator[View]:
    """The text, and what was hidden in it. Links and look-alike digits are everyday and no second reading."""
    # A text that is too long by itself is refused before its other views are made, which cost far more.
    yield View(encodable(text))
    yield from (view for view in views(text) if view.hidden and _EVERYDAY.isdisjoint(view.path))


def _finish(job: _Job) -> None:
    _answer(job, Reading(tuple(job.read), tuple(job.parts)))


def _fail(job: _Job, error: LayerError) -> None:
    _answer(job, error)


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
