"""Thousands of disguised requests over raw sockets: nothing unscanned goes up, nothing breaks, nothing hangs."""

from __future__ import annotations

import asyncio
import re
import time

import pytest
from door import Door, door
from hostile import corpus
from recording import recording, whole

pytestmark = pytest.mark.slow
ALLOWED_ERRORS = {502, 503, 504}
AT_ONCE = 16
LONGEST = 3.0


async def send(made: Door, raw: bytes) -> tuple[float, list[int]]:
    """Seconds until the server closes, and the statuses of its answers."""
    started, got = time.monotonic(), b""
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    try:
        async with asyncio.timeout(5):
            writer.write(raw)
            while chunk := await reader.read(65536):
                got += chunk
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
    statuses = re.findall(rb"HTTP/1\.[01] (\d{3}) ", got)
    return time.monotonic() - started, [int(status) for status in statuses]


async def test_no_disguise_brings_a_body_up_unscanned(capfd: pytest.CaptureFixture[str]) -> None:
    """Over 2,000 requests that each carry an attack: none arrives, and none gets a 5xx of our own making."""
    cases = list(corpus())
    queue = asyncio.Queue[bytes]()
    for case in cases:
        queue.put_nowait(case)
    slow, broken = [], []
    limits = {"body_timeout": 0.3, "header_timeout": 0.3}

    async def worker(made: Door) -> None:
        while not queue.empty():
            case = queue.get_nowait()
            took, statuses = await send(made, case)
            if took > LONGEST:
                slow.append((case[:200], took))
            if any(status >= 500 and status not in ALLOWED_ERRORS for status in statuses):
                broken.append((case[:200], statuses))

    async with recording(whole(b"{}")) as upstream, door(upstream.url, limits=limits) as made:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(worker(made))
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
    async with recording(whole(b"{}")) as upstream, door(upstream.url, mode="monitor") as made:
        for case in list(corpus())[:3]:
            await send(made, case)
    assert any(b"EVIL" in body for body in upstream.bodies)
