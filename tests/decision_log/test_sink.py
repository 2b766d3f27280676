"""Twin of sidecar/decision_log/sink.py: a receiver that is away, comes back, refuses, or never takes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sidecar.decision_log.sink import Event, Sink, SinkError
from sidecar.observability.metrics import REGISTRY


class Memory:
    """A receiver that keeps what it gets, after these failures."""

    name = "syslog"

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.events, self.closed = list(failures), list[Event](), False

    async def send(self, events: Sequence[Event]) -> None:
        """Fail as long as there are failures left."""
        if self.failures:
            raise self.failures.pop(0)
        self.events += events

    async def close(self) -> None:
        """Note it."""
        self.closed = True


def counted(outcome: str) -> float:
    """The events with this outcome."""
    return REGISTRY.get_sample_value("sidecar_sink_events_total", {"sink": "syslog", "outcome": outcome}) or 0.0


async def until(receiver: Memory, number: int) -> None:
    """Wait until it has so many."""
    async with asyncio.timeout(20):
        while len(receiver.events) < number:  # noqa: ASYNC110 - the receiver has no event to wait for
            await asyncio.sleep(0.01)


async def test_events_arrive_in_order_after_a_failure() -> None:
    """A receiver that is away costs nothing but time; its problem is named meanwhile."""
    receiver = Memory(ConnectionRefusedError(111, "Connection refused"))
    sink = Sink(receiver, queue=10, batch=2)
    for number in range(5):
        sink.put({"n": number})
    sink.start()
    async with asyncio.timeout(20):
        while sink.problem is None:  # noqa: ASYNC110 - neither has the sink
            await asyncio.sleep(0)
    assert sink.problem == "decisions wait for syslog: connection refused"
    await until(receiver, 5)
    assert ([event["n"] for event in receiver.events], sink.problem) == ([0, 1, 2, 3, 4], None)
    await sink.close()
    assert receiver.closed


async def test_what_exceeds_the_queue_is_dropped_and_counted() -> None:
    """The oldest stay; `put` never waits."""
    receiver, before = Memory(), counted("dropped")
    sink = Sink(receiver, queue=3, batch=10)
    for number in range(5):
        sink.put({"n": number})
    sink.start()
    await sink.close()
    assert ([event["n"] for event in receiver.events], counted("dropped") - before) == ([0, 1, 2], 2)


async def test_a_batch_that_is_refused_for_good_does_not_hold_up_the_others() -> None:
    """It is dropped and counted as rejected."""
    receiver, before = Memory(SinkError("HTTP 400", rejected=True)), counted("rejected")
    sink = Sink(receiver, queue=10, batch=1)
    sink.put({"n": 0})
    sink.put({"n": 1})
    sink.start()
    await until(receiver, 1)
    assert ([event["n"] for event in receiver.events], counted("rejected") - before) == ([1], 1)
    await sink.close()


@pytest.mark.parametrize("failure", [OSError("away"), SinkError("HTTP 503")])
async def test_closing_ends_though_the_receiver_is_away(failure: Exception) -> None:
    """What waits is counted as dropped."""
    before = counted("dropped")
    sink = Sink(Memory(*[failure] * 100), queue=10, batch=10)
    sink.put({})
    sink.start()
    await asyncio.wait_for(sink.close(), 10)
    assert counted("dropped") - before == 1
