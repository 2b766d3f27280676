"""Load test of the judge at twenty times its capacity: its load, and the latency of other traffic, in one run.

Starts three real processes on loopback: a judge that takes half a second for an answer, a sidecar without and a
sidecar with that judge. Both get the same requests in alternating slices: some outside the band, and inside it far
more than the judge can answer. Prints the judge's peak load (concurrent calls, calls in any minute, longest scan)
and the ratio of the p99 of the traffic outside the band, with and without judge.

    python -m benchmarks.judge_load [--seconds 30] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from detectors.judge import judge_server as judges
from support import SidecarProcess

TAKES = 0.5
CONCURRENCY, QUEUE, TIMEOUT = 4, 16, 3.0
CALLS_A_SCAN = 2  # an acquittal and its control
CAPACITY = CONCURRENCY / TAKES / CALLS_A_SCAN
OVERLOAD = 20
OUTSIDE = 60.0
CALLS_A_MINUTE = 180
SLICE = 3.0
POLICY = """\
family: prompt_injection
rules:
  - {id: BAND-1, title: Band, score: 0.5, languages: [en], patterns: [bandword], match: [bandword], no_match: [band]}
"""


@dataclass
class Side:
    """One sidecar and the results of its requests."""

    name: str
    process: SidecarProcess
    key: str
    outside: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)

    async def scan(self, session: aiohttp.ClientSession, text: str, times: list[float]) -> None:
        """One request; its duration is appended to `times`."""
        begun = time.perf_counter()
        headers = {"X-API-Key": self.key}
        async with session.post(
            f"{self.process.base}/api/v1/prompt/scan", json={"prompt": text}, headers=headers
        ) as got:
            body = await got.json()
        times.append(time.perf_counter() - begun)
        self.used[body.get("layer_used", f"status {got.status}")] += 1


def _judge(pipe: Connection) -> None:
    """The judge's process: sends its URL, serves until told to stop, sends the times of its calls and its peak load."""

    async def serve() -> None:
        starts: list[float] = []

        async def answer(case: judges.Case) -> Any:
            starts.append(time.monotonic())
            await asyncio.sleep(TAKES)
            return await judges.honest(case)

        async with judges.JudgeServer(answer, keep=False) as server:
            pipe.send(server.url)
            await asyncio.to_thread(pipe.recv)
            pipe.send((starts, server.peak))

    asyncio.run(serve())


async def pace(rate: float, seconds: float) -> AsyncIterator[int]:
    """Yields numbers at a steady rate, independent of the consumer (open loop)."""
    begun = time.monotonic()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
        yield number


async def slice_of(side: Side, session: aiohttp.ClientSession, turn: int) -> None:
    """One slice of traffic for one side: both kinds, open loop; returns after the last response."""

    async def kind(word: str, rate: float, times: list[float]) -> None:
        async for number in pace(rate, SLICE):
            tasks.create_task(side.scan(session, f"{word} number {turn} {number}", times))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kind("plain", OUTSIDE, side.outside))
        tasks.create_task(kind("bandword", CAPACITY * OVERLOAD, side.inside))


def p99(times: list[float]) -> float:
    """The 99th percentile, in milliseconds."""
    return sorted(times)[int(len(times) * 0.99)] * 1000


def busiest(starts: list[float], period: float) -> int:
    """Maximum number of calls within any `period` seconds."""
    return max((sum(start <= other < start + period for other in starts) for start in starts), default=0)


def _settings(folder: Path, judge: str | None) -> dict[str, Any]:
    (folder / "band.yaml").write_text(POLICY, "utf-8")
    judge_settings: dict[str, Any] = {
        "url": judge,
        "model": "slow",
        "timeout": f"{TIMEOUT:g}s",
        "concurrency": CONCURRENCY,
        "queue": QUEUE,
    }
    judge_settings |= {"calls": f"{CALLS_A_MINUTE}/minute", "between": [0.35, 0.75]}
    return {
        "layers": {"semantic": {"enabled": False}, "llm_judge": judge_settings if judge else {}},
        "policies": [str(folder / "band.yaml")],
        "limits": {"rate": "1000000/minute", "burst": 100_000},
        "log": {"level": "error"},
    }


@asynccontextmanager
async def running(stack: AsyncExitStack, judge: str) -> AsyncIterator[list[Side]]:
    """Starts both sidecars."""
    sides = []
    for name, url in (("without", None), ("with", judge)):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        process = SidecarProcess(folder, _settings(folder, url))
        stack.callback(process.stop)
        process.start()
        sides.append(Side(name, process, process.new_key("bench")["key"]))
    yield sides


async def measure(seconds: float) -> dict[str, Any]:
    """The whole run; `seconds` of traffic for each side."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    judge = context.Process(target=_judge, args=(theirs,), daemon=True)
    judge.start()
    async with AsyncExitStack() as stack:
        async with running(stack, ours.recv()) as (without, with_judge):
            session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
            for turn in range(max(1, round(seconds / SLICE))):
                for side in (without, with_judge) if turn % 2 else (with_judge, without):
                    await slice_of(side, session, turn)
        ours.send("stop")
        starts, peak = ours.recv()
    judge.join(5)
    return _figures(without, with_judge, starts, peak)


def _figures(without: Side, with_judge: Side, starts: list[float], peak: int) -> dict[str, Any]:
    return {
        "offered_scans_a_second_in_band": CAPACITY * OVERLOAD,
        "judge_capacity_scans_a_second": CAPACITY,
        "scans_in_band": len(with_judge.inside),
        "layer_used": dict(with_judge.used),
        "judge_calls": len(starts),
        "calls_at_once": {"most": peak, "bound": CONCURRENCY},
        "calls_in_any_minute": {"most": busiest(starts, 60.0), "bound": CALLS_A_MINUTE},
        "longest_scan_s": {"most": round(max(with_judge.inside), 3), "deadline": TIMEOUT},
        "p99_outside_ms": {side.name: round(p99(side.outside), 2) for side in (without, with_judge)},
        "p99_outside_ratio": round(p99(with_judge.outside) / p99(without.outside), 3),
        "samples_outside": len(with_judge.outside),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.seconds))
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:32} {value}")


if __name__ == "__main__":
    main()
