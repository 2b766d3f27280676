"""One worker thread that scores texts for many requests, so that the event loop never computes.

A request is scored in steps of some milliseconds: all windows by the first stage, then those without an early exit by
the second, the most suspicious first, within a budget. No window exits early where a `fallback` rule has a hit. A
window of a longer text that the second stage takes for an attack is scored again with two other borders, and the two
highest scores are averaged: a score that is an artifact of a border falls, and an attack remains one wherever it
stands. Of a text of a few pages the paragraphs of a window that is not clearly harmless are scored alone, too, and but
for users' texts their lines. Clients share the time of the thread, and the requests of a client take turns, mostly new
ones first, so a short prompt waits neither for a long document nor for another client. A text is read in chunks and
its windows are created one by one: only the windows pending for the second stage are held. A request is answered after
its last window, or after one that reaches the threshold of its caller. A request whose caller has left is dropped; its
scores stay cached for a retry.

Invariants: only the worker thread touches a job after it is queued; every job is answered exactly once, unless its
caller has left; and at most `budget` windows of a job are pending, always the most suspicious ones.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from sidecar.detectors.semantic.artifact import Array, Calibration
from sidecar.detectors.semantic.cascade import CascadeScorer, FirstStageScore, WindowScore
from sidecar.detectors.semantic.decoded_pieces import most_suspicious
from sidecar.detectors.semantic.paragraphs import has_parts
from sidecar.detectors.semantic.recent_scores import ScoreCache
from sidecar.detectors.semantic.texts import ChannelText, TextView, is_hit
from sidecar.detectors.semantic.views import views_to_score
from sidecar.detectors.semantic.windows import Window, chunks
from sidecar.errors import LayerError
from sidecar.normalization import encodable
from sidecar.util.fair_queue import FairQueue

TIME_SLICE = 0.01
"""Seconds for which one request is scored before the next one has its turn."""
USER = 0
"""The channel of users."""
RESCORE_FROM = (0.25, 0.25, 0.8, 0.8, 0.8)
"""Probability by channel from which a window of a longer text is scored again with other borders. Not by the threshold:
scores are cached for all requests. With a threshold below 0.8 one border decides about an application."""
PARTS_FROM = (0.05, 0.05, 0.8, 0.8, 0.8)
"""The same for scoring its parts alone. An application's own are orders, and what it says decides at a higher score."""
CHUNK = 32_768
"""Characters of a text that are normalized at once."""
MAX_EMBEDDED = 32
"""Windows of a request of which features are asked for, those of the last texts first: a second of the processor."""


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """The score of a window, its place, and whether the second stage computed it."""

    source: TextView
    start: int
    end: int
    logits: Array
    features: Array | None = None
    by_second_stage: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Scored windows: all of the second stage, and the worst early exit of each text.

    `window_counts` counts the windows of each text, `pending_counts` those not scored; `stopped_early`: the threshold
    was reached. `embedded`: by the index of a text the features of its first windows, where they are asked for.
    """

    scored: tuple[ScoredWindow, ...]
    window_counts: tuple[int, ...]
    pending_counts: tuple[int, ...]
    stopped_early: bool = False
    embedded: Mapping[int, Sequence[Array]] = field(default_factory=dict)

    def by_text(self) -> list[list[ScoredWindow]]:
        """The scored windows of each text."""
        by_text: list[list[ScoredWindow]] = [[] for _ in self.window_counts]
        for window in self.scored:
            by_text[window.source.text].append(window)
        return by_text


@dataclass(order=True, slots=True)
class _PendingWindow:
    """A window pending for the second stage. The heap yields the least suspicious first, of equals the last."""

    suspicion: float
    order: int
    source: TextView = field(compare=False)
    window: Window = field(compare=False)


@dataclass(slots=True, eq=False)
class _Job:
    """An active request."""

    texts: Sequence[ChannelText]
    future: asyncio.Future[BatchResult]
    stop_at: float
    window_counts: list[int]
    pending_counts: list[int]
    client: str = ""
    pending: list[_PendingWindow] = field(default_factory=list)
    early_exits: dict[int, ScoredWindow] = field(default_factory=dict)
    scored: list[ScoredWindow] = field(default_factory=list)
    parts: set[tuple[int, int, int]] = field(default_factory=set)
    embedded: dict[int, Sequence[Array]] = field(default_factory=dict)
    steps: Iterator[None] | None = None
    stopped_early: bool = False

    @property
    def result(self) -> BatchResult:
        """The result so far."""
        return BatchResult(
            (*self.scored, *self.early_exits.values()),
            tuple(self.window_counts),
            tuple(self.pending_counts),
            self.stopped_early,
            self.embedded,
        )


class Batcher:
    """Scores texts in its own thread. `close` when done; afterwards every call fails.

    `budget`: second-stage runs per request. `probability`: the calibrated probability of a window's logit, by the
    channel of the text.
    """

    def __init__(
        self,
        scorer: CascadeScorer,
        *,
        budget: int = 256,
        probability: Callable[[float, int], float] | None = None,
        max_queue: int = 512,
        cache: ScoreCache | None = None,
    ) -> None:
        self._scorer = scorer
        self._probability = probability or (lambda logit, _: Calibration().probability(logit))
        self._budget = budget
        self._cache = cache or ScoreCache()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._max_queue, self._active = max_queue, FairQueue[_Job]()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="semantic", daemon=True)
        self._thread.start()

    async def score(self, texts: Sequence[ChannelText], stop_at: float | None = None, client: str = "") -> BatchResult:
        """Score all texts of a client, or until a text reaches the calibrated probability `stop_at`.

        Raises `LayerError`: `overload`, `unavailable` or `error`.
        """
        if self._closed:
            raise LayerError("unavailable", "the reader is closed")
        if self._queue.qsize() + len(self._active) >= self._max_queue:
            raise LayerError("overload", "too many texts wait to be read")
        future: asyncio.Future[BatchResult] = asyncio.get_running_loop().create_future()
        zeros = [0] * len(texts)
        job = _Job(texts, future, math.inf if stop_at is None else stop_at, zeros, zeros.copy(), client)
        self._queue.put(job)
        return await future

    async def close(self) -> None:
        """End the thread; waiting requests fail with `unavailable`. May be called twice."""
        self._closed = True
        self._queue.put(None)
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, 0.05)
        while not self._queue.empty():
            if (job := self._queue.get()) is not None:
                _deliver(job, LayerError("unavailable", "the reader is closed"))

    def _run(self) -> None:
        while self._accept_jobs():
            client, job = self._active.take()
            started = time.monotonic()
            is_finished = self._run_slice(job)
            seconds = time.monotonic() - started
            if is_finished:
                self._active.finish(client, seconds)
            else:
                self._active.give_back(client, job, seconds)
        for job in self._active.drain():
            _deliver(job, LayerError("unavailable", "the reader is closed"))

    def _accept_jobs(self) -> bool:
        """Put new jobs before their clients' others; blocks only without any. False: the batcher is closing."""
        new_jobs: list[_Job] = []
        while not self._closed and (not self._queue.empty() or not (self._active or new_jobs)):
            if (job := self._queue.get()) is None:
                break
            new_jobs.append(job)
        for job in reversed(new_jobs):
            self._active.add(job.client, job)
        return not self._closed

    def _run_slice(self, job: _Job) -> bool:
        """Continue for one time slice. True: the request is answered, or its caller has left."""
        deadline = time.monotonic() + TIME_SLICE
        job.steps = job.steps or self._steps(job)
        try:
            while not job.future.done() and not self._closed:
                next(job.steps)
                if time.monotonic() >= deadline:
                    return False
        except StopIteration:
            _deliver(job, job.result)
        except Exception as error:  # noqa: BLE001 - the thread must outlive any text
            _deliver(job, error if isinstance(error, LayerError) else LayerError("error", type(error).__name__))
        else:
            return job.future.done()
        return True

    def _steps(self, job: _Job) -> Iterator[None]:
        """The whole computation, one step at a time."""
        for number, text in enumerate(job.texts):
            for offset, chunk in chunks(text.text, CHUNK):
                for view in views_to_score(chunk):
                    yield
                    yield from self._first_stage(job, TextView(number, offset, view))
        yield from self._second_stage(job)
        if not job.stopped_early:
            yield from self._embed(job)

    def _first_stage(self, job: _Job, source: TextView) -> Iterator[None]:
        """All windows of one view by the first stage, and what was decoded in it without its surroundings."""
        text, decoded = job.texts[source.text], list[tuple[FirstStageScore, Window]]()
        for window in self._scorer.windows(source.view.text):
            self._sort(job, source, window, self._first_stage_score(window, text.channel))
            yield
        for window in self._scorer.decoded(source.view) if has_parts(len(text.text), text.channel) else ():
            decoded.append((self._first_stage_score(window, text.channel), window))
            yield
        if self._scorer.has_first_stage:
            decoded = list(most_suspicious(decoded, lambda window: is_hit(text.hits, source, window)))
        for score, window in decoded:
            self._sort(job, source, window, score)

    def _sort(self, job: _Job, source: TextView, window: Window, score: FirstStageScore) -> None:
        """Keep the score of a window with an early exit, leave any other to the second stage."""
        job.window_counts[source.text] += 1
        exits_early = self._scorer.exits_early(score) and not is_hit(job.texts[source.text].hits, source, window)
        (self._keep_worst if exits_early else self._defer)(job, source, window, score)

    def _keep_worst(self, job: _Job, source: TextView, window: Window, score: FirstStageScore) -> None:
        """Of the windows with an early exit, keep the worst of each text."""
        final, attack = self._scorer.early_exit_score(score), self._scorer.head.attack
        worst = job.early_exits.get(source.text)
        if worst is None or final.logits[attack] > worst.logits[attack]:
            job.early_exits[source.text] = ScoredWindow(source, window.start, window.end, final.logits)

    def _defer(self, job: _Job, source: TextView, window: Window, score: FirstStageScore) -> None:
        """Leave a window to the second stage; windows beyond the budget are only counted."""
        job.pending_counts[source.text] += 1
        heapq.heappush(job.pending, _PendingWindow(score.suspicion, -sum(job.window_counts), source, window))
        if len(job.pending) > self._budget:
            heapq.heappop(job.pending)

    def _second_stage(self, job: _Job) -> Iterator[None]:
        """The pending windows, most suspicious first."""
        total_cost = 0
        for pending in sorted(job.pending, reverse=True):
            if total_cost >= self._budget:
                return
            source, window, channel = pending.source, pending.window, job.texts[pending.source.text].channel
            hit = is_hit(job.texts[source.text].hits, source, window)
            score = self._second_stage_score(window, channel, hit=hit)
            total_cost += score.cost
            if self._needs_rescoring(score, window, source.view.text, channel):
                score, cost = yield from self._rescored(score, window, source.view.text, channel, hit=hit)
                total_cost += cost
            job.pending_counts[source.text] -= 1
            if self._keep(job, source, window, score):
                return
            yield
            has_alone = has_parts(len(job.texts[source.text].text), channel)
            if has_alone and self._calibrated(score.logits, channel) >= PARTS_FROM[channel]:
                total_cost += yield from self._parts(job, source, window)
                if job.stopped_early:
                    return

    def _embed(self, job: _Job) -> Iterator[None]:
        """The features that were asked for, whether or not the window exited early; they change no score.

        Of a text all of them or none.
        """
        left = MAX_EMBEDDED
        for number, text in reversed(list(enumerate(job.texts))):
            windows = list(islice(self._scorer.windows(encodable(text.text[:CHUNK])), text.embedded))
            if len(windows) > left:
                return
            left, features = left - len(windows), list[Array]()
            for window in windows:
                score = self._second_stage_score(window, text.channel, hit=False)
                features += [] if score.features is None else [score.features]
                yield
            if text.embedded:
                job.embedded[number] = features

    def _parts(self, job: _Job, source: TextView, window: Window) -> Generator[None, None, int]:
        """Score the parts of a window that no other window had, and return the cost."""
        cost, channel = 0, job.texts[source.text].channel
        for part in self._scorer.parts(source.view.text, window, lines=channel != USER):
            if (place := (id(source.view), part.start, part.end)) in job.parts:
                continue
            job.parts.add(place)
            job.window_counts[source.text] += 1
            hit = is_hit(job.texts[source.text].hits, source, part)
            score = self._second_stage_score(part, channel, hit=hit)
            cost += score.cost
            if self._keep(job, source, part, score):
                break
            yield
        return cost

    def _keep(self, job: _Job, source: TextView, window: Window, score: WindowScore) -> bool:
        """Keep the score of a window; True if it decides."""
        scored = ScoredWindow(source, window.start, window.end, score.logits, score.features, True)
        job.scored.append(scored)
        job.stopped_early = self.probability(scored, job.texts[source.text].channel) >= job.stop_at
        return job.stopped_early

    def _needs_rescoring(self, score: WindowScore, window: Window, text: str, channel: int) -> bool:
        has_context = bool(text[: window.start].strip() or text[window.end :].strip())
        return has_context and not window.alone and self._calibrated(score.logits, channel) >= RESCORE_FROM[channel]

    def _rescored(
        self, score: WindowScore, window: Window, text: str, channel: int, *, hit: bool
    ) -> Generator[None, None, tuple[WindowScore, int]]:
        """The mean of the two highest of this score and those with other borders, and the cost of those."""
        shifted = list[WindowScore]()
        for shifted_window in self._scorer.shifted_windows(text, window):
            yield
            shifted.append(self._second_stage_score(shifted_window, channel, hit=hit))
        attack = self._scorer.head.attack
        highest = sorted([score, *shifted], key=lambda candidate: float(candidate.logits[attack]), reverse=True)[:2]
        mean = np.asarray(sum(candidate.logits for candidate in highest) / len(highest), dtype=np.float32)
        return replace(highest[0], logits=mean), sum(candidate.cost for candidate in shifted)

    def probability(self, window: ScoredWindow, channel: int) -> float:
        """The calibrated probability that a text of this channel is an attack, by this window."""
        return self._calibrated(window.logits, channel)

    def _calibrated(self, logits: Array, channel: int) -> float:
        return self._probability(float(logits[self._scorer.head.attack]), channel)

    def _first_stage_score(self, window: Window, channel: int) -> FirstStageScore:
        key = self._cache.key(b"first", window, channel)
        if not isinstance(score := self._cache.get(key), FirstStageScore):
            score = self._scorer.first_stage(window, channel)
            self._cache.put(key, score)
        return score

    def _second_stage_score(self, window: Window, channel: int, *, hit: bool) -> WindowScore:
        """`hit`: a rule has one there, perhaps in a spelling that the first stage takes for harmless."""
        key = self._cache.key(b"second of all" if hit else b"second", window, channel)
        if not isinstance(score := self._cache.get(key), WindowScore):
            score = self._scorer.second_stage(window, channel, every_spelling=hit)
            self._cache.put(key, score)
        return score


def _deliver(job: _Job, outcome: BatchResult | LayerError) -> None:
    """Deliver the outcome to the event loop that waits for it, if it still does."""

    def settle() -> None:
        if job.future.done():
            return
        if isinstance(outcome, LayerError):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)

    try:
        job.future.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: there is no waiter
        return
