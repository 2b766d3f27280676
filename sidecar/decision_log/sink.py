"""A receiver of decisions: sends them in batches from a bounded queue, in the background, and counts what it loses.

A receiver that is away costs no request: events wait, the newest are dropped once the queue is full. A batch leaves
the queue once the receiver has taken it, so one may arrive twice after a lost response.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from sidecar.errors import SidecarError
from sidecar.observability.metrics import SINK_EVENTS
from sidecar.util import logs
from sidecar.util.connections import describe_connection
from sidecar.util.tasks import Background

Event = Mapping[str, Any]
"""The metadata of a decision: JSON values, no text of a prompt."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
SEND_SECONDS, CLOSE_SECONDS = 15.0, 3.0
_log = logs.get("sink")


class SinkError(SidecarError):
    """A batch was not taken. `rejected`: it never will be, so it is dropped."""

    def __init__(self, reason: str, *, rejected: bool = False) -> None:
        super().__init__(reason)
        self.rejected = rejected


def describe(error: Exception) -> str:
    """Why a receiver was not reached, in the system's words where it has some."""
    return str(error).partition("\n")[0] if isinstance(error, SidecarError) else describe_connection(error)


class Receiver(Protocol):
    """Where a sink sends to."""

    name: str

    async def send(self, events: Sequence[Event]) -> None:
        """Deliver the events. Raises `SinkError`, `OSError` or `TimeoutError`."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class Sink:
    """One receiver with its queue."""

    def __init__(self, receiver: Receiver, *, queue: int, batch: int) -> None:
        self._receiver, self._limit, self._batch = receiver, queue, batch
        self._queue: deque[Event] = deque()
        self._waiting = asyncio.Event()
        self._pause = FIRST_PAUSE
        self.problem: str | None = None
        self._background = Background()

    def start(self) -> None:
        """Begin to send."""
        self._background.repeat(f"sink_{self._receiver.name}", self._step, 0.0)

    async def close(self) -> None:
        """Send what waits, for a few seconds; the others are dropped and counted."""
        await self._background.close()
        with suppress(SidecarError, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._queue:
                    await self._send()
        self._count("dropped", len(self._queue))
        self._queue.clear()
        await self._receiver.close()

    def put(self, event: Event) -> None:
        """Queue an event. Never waits."""
        if len(self._queue) >= self._limit:
            self._count("dropped", 1)
            return
        self._queue.append(event)
        self._waiting.set()

    async def _step(self) -> None:
        await self._waiting.wait()
        try:
            while self._queue:
                await self._send()
        except (SidecarError, OSError, TimeoutError) as error:
            await self._note(error)
            return
        self._waiting.clear()

    async def _send(self) -> None:
        events = [self._queue[index] for index in range(min(self._batch, len(self._queue)))]
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._receiver.send(events)
        except SinkError as error:
            if not error.rejected:
                raise
            _log.error("sink_rejected", sink=self._receiver.name, reason=str(error), events=len(events))
            self._remove(events, "rejected")
            return
        self._remove(events, "sent")
        if self.problem is not None:
            _log.info("sink_recovered", sink=self._receiver.name, waiting=len(self._queue))
        self.problem, self._pause = None, FIRST_PAUSE

    def _remove(self, events: Sequence[Event], outcome: str) -> None:
        for _ in events:
            self._queue.popleft()
        self._count(outcome, len(events))

    async def _note(self, error: Exception) -> None:
        reason = describe(error)
        problem = f"decisions wait for {self._receiver.name}: {reason}"
        if problem != self.problem:
            _log.error("sink_failed", sink=self._receiver.name, reason=reason)
        self.problem = problem
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _count(self, outcome: str, number: int) -> None:
        SINK_EVENTS.labels(self._receiver.name, outcome).inc(number)
