"""Tests of the fault proxy: the failure tests rely on the faults that it injects."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest
from faults import GARBAGE, HALF_OPEN, NO_FAULT, REFUSE, Fault, Link, link
from recording import recording, respond

BODY = b"x" * 1000


async def ask(faulty: Link, seconds: float = 5.0) -> bytes:
    """One POST through the link; the body of the answer."""
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.post(faulty.url, data=b"hello") as answer:
        return await answer.read()


async def test_a_good_link_passes_both_ways() -> None:
    """Requests and responses pass unchanged."""
    async with recording(respond(BODY)) as far, link(far.port) as faulty:
        assert await ask(faulty) == BODY
        assert far.bodies == [b"hello"]


@pytest.mark.parametrize(
    ("fault", "raised", "arrives"),
    [
        (REFUSE, aiohttp.ClientConnectorError, False),
        (Fault("reset"), aiohttp.ClientOSError, True),
        (Fault("cut"), aiohttp.ServerDisconnectedError, True),
        (Fault("cut", after=300), aiohttp.ClientPayloadError, True),
        (Fault("stall", after=300), TimeoutError, True),
        (Fault("cut", way="up"), aiohttp.ServerDisconnectedError, False),
        (HALF_OPEN, TimeoutError, False),
        (GARBAGE, aiohttp.ClientResponseError, False),
        (Fault("drip", pause=0.01), TimeoutError, True),
        (Fault("latency", pause=2), TimeoutError, True),
    ],
    ids=lambda value: f"{value.kind}-{value.after}-{value.way}" if isinstance(value, Fault) else None,
)
async def test_each_fault_is_what_a_client_meets(fault: Fault, raised: type[Exception], arrives: bool) -> None:
    """The client gets the error of the fault, and the request is forwarded or not, as the fault defines."""
    async with recording(respond(BODY)) as far, link(far.port) as faulty:
        await faulty.set(fault)
        with pytest.raises(raised):
            await ask(faulty, 1.5)  # a busy machine takes its time to connect
        assert bool(far.bodies) == arrives
        await faulty.set(NO_FAULT)
        assert await ask(faulty) == BODY


async def test_a_fault_reaches_connections_that_are_open() -> None:
    """A fault applies to pooled connections as it does to new ones."""
    async with recording(respond(BODY)) as far, link(far.port) as faulty, aiohttp.ClientSession() as session:
        async with session.post(faulty.url, data=b"1") as answer:
            await answer.read()
        await faulty.set(Fault("reset"))
        with pytest.raises(aiohttp.ClientError):
            await session.post(faulty.url, data=b"2")
        assert faulty.connections == 1


async def test_slow_faults_are_slow_and_complete() -> None:
    """Latency delays data and loses none."""
    async with recording(respond(BODY)) as far, link(far.port) as faulty:
        await faulty.set(Fault("latency", pause=0.2))
        begun = time.monotonic()
        assert await asyncio.wait_for(ask(faulty), 5) == BODY
        assert time.monotonic() - begun >= 0.2
