"""The raw proxies that bound what a protocol of our own saves: they forward faithfully, and one of them scans."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from benchmarks.speed import scenes
from benchmarks.speed.client import Tally, at_once, chat
from benchmarks.speed.goals import BARE, RULES
from benchmarks.speed.raw_path import MODULE, RAW, RAW_SCAN, bounds, floor, rows, shares
from benchmarks.speed.raw_scans import STEPS
from benchmarks.speed.servers import ANSWER
from benchmarks.speed.world import World


async def test_the_raw_proxy_passes_every_byte() -> None:
    """Small and large chats and a stream reach the upstream complete, and its responses the client."""
    async with World() as world:
        raw = await world.proxy(RAW, MODULE, "raw")
        Tally.requests = Tally.body_bytes = 0
        plain = [chat(500, 1), chat(200_000, 2), chat(900, 3)]
        answers, _ = await at_once(raw.port, [*plain, chat(500, 4, stream=True, max_tokens=5, seed=1)], 2)
        assert await scenes.counted(world.upstream) == (Tally.requests, Tally.body_bytes) == (4, Tally.body_bytes)
        assert Tally.body_bytes > 201_000
        assert sorted((answer.status, len(answer.delays)) for answer in answers) == [(200, 0)] * 3 + [(200, 5)]
        assert [answer.body for answer in answers if not answer.delays] == [ANSWER] * 3


async def test_the_scanning_proxy_refuses_an_attack_and_records_all() -> None:
    """An attack never reaches the upstream, an ordinary chat does, and each has its row in the scan log."""
    async with World() as world:
        scanning = await world.proxy(RAW_SCAN, MODULE, "scan")
        await scenes.attacks(scanning, 2)
        assert (await scenes.counted(world.upstream))[0] == 0
        answers, _ = await at_once(scanning.port, scenes.requests_of(1_000, 3), 1)
        assert [answer.body for answer in answers] == [ANSWER] * 3
        assert (await scenes.counted(world.upstream))[0] == 3
        assert await _eventually(world.folder, 5) == ["allow"] * 3 + ["block"] * 2


async def _eventually(folder: Path, decisions: int) -> list[str]:
    """The actions of the scan log, once it has that many."""
    for _ in range(600):
        if len(actions := _actions(folder)) >= decisions:
            break
        await asyncio.sleep(0.1)
    return actions


def _actions(folder: Path) -> list[str]:
    (path,) = folder.glob("raw-*.db")
    with closing(sqlite3.connect(path)) as connection:
        return sorted(action for (action,) in connection.execute("SELECT action FROM decisions"))


async def test_the_floor_has_every_step(tmp_path: Path) -> None:
    """Every round measures all steps, and a scan takes longer than the extraction alone."""
    rounds = await floor(tmp_path, 2, 200)
    assert [list(figures) for figures in rounds] == [list(STEPS)] * 2
    assert all(0 < figures[STEPS[0]] < figures[STEPS[1]] for figures in rounds)


def test_bounds_are_ratios_of_the_same_round() -> None:
    """The sidecar takes 300 microseconds, `raw + scan` 100, of which 60 are the floor and 30 the protocol."""
    fast, slow = {"p50_ms": 0.1, "per_s": 900.0, "cpu_ms": 0.1}, {"p50_ms": 0.3, "per_s": 300.0, "cpu_ms": 0.3}
    figures = {BARE: [{**slow, "cpu_ms": 0.15}], RAW: [{**fast, "cpu_ms": 0.03}], RAW_SCAN: [fast], RULES: [slow]}
    steps = [dict(zip(STEPS, (10.0, 50.0, 60.0), strict=True))]
    assert [goal.row()[2:] for goal in bounds(figures, figures, steps)] == [["3.00", "yes"]] * 4 + [["5.00", "yes"]]
    assert list(rows(figures, figures))[2] == [RAW_SCAN, *("0.100", "0.33"), *("900", "3.00"), *("0.100", "0.67")]
    values = [10, 50, 60, 30, 10, 120, 80, 300]
    assert [row[1] for row in shares([figures, figures], steps)] == [str(value) for value in values]
    assert [row[4] for row in shares([figures, figures], steps)][2:4] == ["20%", "10%"]
