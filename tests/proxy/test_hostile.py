"""Thousands of disguised requests over raw sockets: nothing unscanned goes up, nothing breaks, nothing hangs."""

from __future__ import annotations

import asyncio
import re
import time

import pytest
from hostile import corpus
from inline_proxy import InlineProxy, eventually, run_proxy
from recording import recording, respond

pytestmark = pytest.mark.slow
ALLOWED_ERRORS = {502, 503, 504}
AT_ONCE = 16
LONGEST = 1.0
"""Seconds that a request may take: the deadlines of head and body (0.3 s each), and what the server does."""
TICK = 0.01


class Clock:
    """Time as the server has it, which a busy machine does not stretch.

    Server and client share one event loop here. A server that waits for something lets the loop turn, and every
    turn of this clock takes at least `TICK`; one that holds the loop uses its processor time. The larger of
    the two has passed for the server; what the machine gives to others has not.
    """

    def __init__(self) -> None:
        self.turns = 0

    async def run(self) -> None:
        """Turn until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            self.turns += 1

    def read(self) -> tuple[float, float]:
        """Seconds of waiting and of work."""
        return self.turns * TICK, time.thread_time()

    def since(self, then: tuple[float, float]) -> float:
        """Seconds since a reading."""
        return max(now - before for now, before in zip(self.read(), then, strict=True))


async def send(made: InlineProxy, raw: bytes, clock: Clock) -> tuple[float, list[int]]:
    """Seconds until the server closes, and the statuses of its answers."""
    started, got = clock.read(), b""
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    try:
        async with asyncio.timeout(60):
            writer.write(raw)
            while chunk := await reader.read(65536):
                got += chunk
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
    statuses = re.findall(rb"HTTP/1\.[01] (\d{3}) ", got)
    return clock.since(started), [int(status) for status in statuses]


async def test_no_disguise_brings_a_body_up_unscanned(capfd: pytest.CaptureFixture[str]) -> None:
    """Over 2,000 requests that each carry an attack: none arrives, gets a 5xx of our own making, or hangs over 1 s."""
    cases = list(corpus())
    queue = asyncio.Queue[bytes]()
    for case in cases:
        queue.put_nowait(case)
    slow, broken = [], []
    limits = {"body_timeout": 0.3, "header_timeout": 0.3}
    clock = Clock()

    async def worker(made: InlineProxy) -> None:
        while not queue.empty():
            case = queue.get_nowait()
            took, statuses = await send(made, case, clock)
            if took > LONGEST:
                slow.append((case[:200], took))
            if any(status >= 500 and status not in ALLOWED_ERRORS for status in statuses):
                broken.append((case[:200], statuses))

    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, limits=limits) as made:
        ticking = asyncio.ensure_future(clock.run())
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker(made))
        ticking.cancel()
        bodies = [(received.line, received.body[:200]) for received in upstream.requests if received.body]
    written = "".join(capfd.readouterr())
    assert len(cases) > 2000
    assert bodies == []
    assert broken == []
    assert "Traceback" not in written
    assert "EVIL" not in written
    assert slow == []


async def test_the_corpus_would_be_seen_if_it_went_up() -> None:
    """The control: without enforcement its plain cases do arrive at the recorder."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, mode="monitor") as made:
        for case in list(corpus())[:3]:
            await send(made, case, Clock())
    assert any(b"EVIL" in body for body in upstream.bodies)


async def test_a_server_that_hangs_would_be_seen() -> None:
    """The control of the clock: it goes on while the server waits, and while it works."""
    clock = Clock()
    ticking, begun = asyncio.ensure_future(clock.run()), clock.read()
    await eventually(lambda: clock.since(begun) > LONGEST, seconds=60)
    ticking.cancel()
    begun, worked = clock.read(), time.thread_time()
    while time.thread_time() - worked <= 0.1:
        pass
    assert clock.since(begun) > 0.1
