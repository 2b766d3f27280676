"""Thousands of disguised requests over raw sockets: nothing unscanned is forwarded, nothing fails, nothing hangs."""

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
"""Seconds per request: the deadlines of head and body (0.3 s each) and the server's work."""
TICK = 0.01


class Clock:
    """Server time, independent of the load of the machine.

    Server and client share one event loop. While the server waits, this clock ticks at most once per `TICK`; while it
    blocks the loop, it uses processor time. The larger of the two is the elapsed server time.
    """

    def __init__(self) -> None:
        self.turns = 0

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            self.turns += 1

    def read(self) -> tuple[float, float]:
        """Seconds of waiting and of work."""
        return self.turns * TICK, time.thread_time()

    def since(self, then: tuple[float, float]) -> float:
        """Seconds since a reading."""
        return max(now - before for now, before in zip(self.read(), then, strict=True))


async def send(endpoint: InlineProxy, raw: bytes, clock: Clock) -> tuple[float, list[int]]:
    """Seconds until the server closes, and the statuses of its answers."""
    started, actual = clock.read(), b""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    try:
        async with asyncio.timeout(60):
            writer.write(raw)
            while chunk := await reader.read(65536):
                actual += chunk
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
    statuses = re.findall(rb"HTTP/1\.[01] (\d{3}) ", actual)
    return clock.since(started), [int(status) for status in statuses]


async def test_no_disguised_body_is_forwarded_unscanned(capfd: pytest.CaptureFixture[str]) -> None:
    """Of over 2,000 requests with an attack none is forwarded, gets a 5xx of the sidecar, or hangs over 1 s."""
    cases = list(corpus())
    queue = asyncio.Queue[bytes]()
    for case in cases:
        queue.put_nowait(case)
    slow, broken = [], []
    limits = {"body_timeout": 0.3, "header_timeout": 0.3}
    clock = Clock()

    async def worker(endpoint: InlineProxy) -> None:
        while not queue.empty():
            case = queue.get_nowait()
            took, statuses = await send(endpoint, case, clock)
            if took > LONGEST:
                slow.append(case)
            if any(status >= 500 and status not in ALLOWED_ERRORS for status in statuses):
                broken.append((case[:200], statuses))

    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, limits=limits) as endpoint:
        ticking = asyncio.ensure_future(clock.run())
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker(endpoint))
        # Beside fifteen others on a busy machine the work of all counts; alone, only its own.
        hanging = [case[:200] for case in slow if (await send(endpoint, case, clock))[0] > LONGEST]
        ticking.cancel()
        bodies = [(received.line, received.body[:200]) for received in upstream.requests if received.body]
    written = "".join(capfd.readouterr())
    assert len(cases) > 2000
    assert bodies == []
    assert broken == []
    assert "Traceback" not in written
    assert "EVIL" not in written
    assert hanging == []


async def test_the_corpus_would_be_seen_if_it_went_up() -> None:
    """Control: without enforcement the plain cases reach the upstream."""
    async with recording(respond(b"{}")) as upstream, run_proxy(upstream.url, mode="monitor") as endpoint:
        for case in list(corpus())[:3]:
            await send(endpoint, case, Clock())
    assert any(b"EVIL" in body for body in upstream.bodies)


async def test_a_server_that_hangs_would_be_seen() -> None:
    """Control of the clock: it advances while the server waits and while it works."""
    clock = Clock()
    ticking, start_time = asyncio.ensure_future(clock.run()), clock.read()
    await eventually(lambda: clock.since(start_time) > LONGEST, seconds=60)
    ticking.cancel()
    start_time, worked = clock.read(), time.thread_time()
    while time.thread_time() - worked <= 0.1:
        pass
    assert clock.since(start_time) > 0.1
