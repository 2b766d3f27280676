"""Failure matrix, rows of layers: judge, semantic layer, rules and overload; closed and open, both endpoints.

Closed: 503 (overload of the scan API: 429), and only texts that a scan allowed reach the upstream. Open: the other
layers decide, or the text is forwarded and marked as unscanned.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from chaos.world import ANSWER, ATTACK, NO_SEMANTIC, World, audit, patiently, settings, world
from detectors.judge import judge_server as judges
from detectors.judge.judge_server import JudgeServer
from faults import GARBAGE, HALF_OPEN, NO_FAULT, REFUSE, Fault, Link, link
from recording import Recording, recording, respond
from yarl import URL

FAULTS = {
    "refused": REFUSE,
    "reset": Fault("reset"),
    "reset in the answer": Fault("reset", after=60),
    "closed": Fault("cut"),
    "cut in the answer": Fault("cut", after=200),
    "request cut": Fault("cut", after=100, way="up"),
    "half open": HALF_OPEN,
    "stalled in the answer": Fault("stall", after=100),
    "slow drip": Fault("drip", pause=0.05),
    "garbage": GARBAGE,
    "late": Fault("latency", pause=2),
}
ALL_JUDGED = [0.0, 0.6]


@asynccontextmanager
async def judged(folder: Path, **sections: Any) -> AsyncIterator[tuple[World, Link, JudgeServer, Recording, str]]:
    """A sidecar that asks a judge behind a faulty link in every scan."""
    async with recording(respond(ANSWER)) as upstream, JudgeServer() as judge, link(URL(judge.url).port or 0) as wire:
        judge_settings = {"url": f"{wire.url}/v1", "model": "m", "between": ALL_JUDGED, "timeout": "250ms"}
        judge_settings |= {"breaker_failures": 1000, "control": False, "cache": 0, "calls": "100000/second"}
        judge_settings |= {"tokens": "100000000/second"} | sections.pop("judge", {})
        layers = {"semantic": NO_SEMANTIC, "llm_judge": judge_settings}
        configured = settings(folder, upstream.url, layers=layers, **sections)
        async with world(configured) as here:
            yield here, wire, judge, upstream, configured.store.url


@pytest.mark.parametrize("policy", ["block", "skip"])
async def test_a_judge_behind_a_bad_link(tmp_path: Path, policy: str) -> None:
    """For every fault: closed is 503 and nothing is forwarded, open uses the rules; both recover afterwards."""
    async with judged(tmp_path, failure={"llm_judge": policy}) as (here, wire, _, upstream, store):
        for name, fault in FAULTS.items():
            await wire.set(fault)
            before, begun = len(upstream.bodies), time.monotonic()
            inline, scan = await asyncio.gather(here.inline(), here.scan())
            expected = 503 if policy == "block" else 200
            assert (name, inline.status, scan.status) == (name, expected, expected)
            assert len(upstream.bodies) - before == (0 if policy == "block" else 1)
            assert time.monotonic() - begun < 3, f"{name}: the deadline is total"
            assert inline.unscanned is None
            if policy == "block":
                assert inline.json["error"]["code"] == "scanner_unavailable"
                assert list(scan.json) == ["detail"]
                assert inline.headers["Retry-After"]
                assert scan.headers["Retry-After"]
            await wire.set(NO_FAULT)
            assert (await here.inline()).status == 200, f"{name}: not over when the fault was"
        blocked = await here.inline(ATTACK)
        assert blocked.status == 400
    assert await audit(store, upstream) == []


@pytest.mark.parametrize("policy", ["block", "skip"])
async def test_an_open_breaker_waits_for_nobody(tmp_path: Path, policy: str) -> None:
    """After the configured failures an unreachable judge adds no latency at either endpoint."""
    once = {"breaker_failures": 1, "breaker_pause": "60s", "timeout": "1s", "attempts": 1}
    async with judged(tmp_path, failure={"llm_judge": policy}, judge=once) as (here, wire, _, upstream, store):
        await wire.set(HALF_OPEN)
        await here.inline()
        begun = time.monotonic()
        replies = [await here.inline(), await here.scan()]
        assert time.monotonic() - begun < 0.5
        assert {reply.status for reply in replies} == {503 if policy == "block" else 200}
    assert await audit(store, upstream) == []


@pytest.mark.parametrize("policy", ["block", "skip"])
async def test_the_deadline_of_the_request_while_scanning(tmp_path: Path, policy: str) -> None:
    """`scan.deadline` cancels a layer that is still running: closed is 503, open uses the layers that have answered."""
    slow = {"timeout": "10s", "attempts": 1}
    rules = {"failure": {"llm_judge": policy}, "scan": {"deadline": "300ms"}}
    async with judged(tmp_path, judge=slow, **rules) as (here, _, judge, upstream, store):
        judge.answer = judges.slow(5)
        begun = time.monotonic()
        replies = await asyncio.gather(here.inline(), here.scan())
        assert time.monotonic() - begun < 3
        assert [(reply.status, reply.unscanned) for reply in replies] == [(503 if policy == "block" else 200, None)] * 2
    assert await audit(store, upstream) == []


@pytest.mark.parametrize("policy", ["block", "allow"])
async def test_a_full_scan_queue(tmp_path: Path, policy: str) -> None:
    """A full queue refuses within 50 ms with Retry-After; `overload: allow` forwards and marks it unscanned."""
    bounds = {"concurrency": 1, "queue": 0}
    single = {"timeout": "3s"}
    async with judged(tmp_path, scan=bounds, failure={"overload": policy}, judge=single) as opened:
        here, _, judge, upstream, store = opened
        await here.inline()
        judge.answer = judges.slow(1)
        holder = asyncio.ensure_future(here.inline())
        await patiently(lambda: judge.in_flight)
        taken, replies = [], []
        for _ in range(5):
            begun = time.monotonic()
            replies.append(await here.inline())
            taken.append(time.monotonic() - begun)
        scan = await here.scan()
        assert (await holder).status == 200
    assert min(taken) < 0.05
    unseen = await audit(store, upstream)
    if policy == "block":
        assert {reply.status for reply in replies} == {503}
        assert all(reply.headers["Retry-After"] for reply in replies)
        assert (scan.status, scan.headers["Retry-After"]) == (429, "1")
        assert unseen == []
    else:
        assert {(reply.status, reply.unscanned) for reply in replies} == {(200, "overload")}
        assert (scan.status, scan.unscanned) == (200, "overload")
        assert len(unseen) == 5
