"""Profiles of a request's time: each scene under py-spy, as text.

The sidecar runs unmodified; py-spy (`pip install py-spy`) samples its threads 500 times a second, inference
included. A share "in all" includes what a function calls.

    python -m benchmarks.speed.profiles [--py-spy PROGRAM] [--lines 25] [--out FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, islice
from pathlib import Path

import uvloop

from benchmarks.speed import scenes
from benchmarks.speed.client import at_once, one_by_one
from benchmarks.speed.world import Target, World, spent

RATE = "500"
ATTACHED = 2.0
"""Seconds until py-spy is attached."""
EVERYTHING = 0.82
"""Functions with at least this share are outer frames, and left out."""
IDLE = frozenset({"_worker (futures/thread.py)", "_connection_worker_thread (aiosqlite/core.py)"})
"""Functions in which threads wait for work, which py-spy cannot distinguish from work on every machine. `Runner.run`
itself is uvloop: its work and its waiting."""
_turns = count()
Scene = Callable[[Target], Awaitable[int]]


async def _alone(target: Target, size: int, times: int) -> int:
    return len(await one_by_one(target.port, scenes.requests_of(size, times)))


async def _many(target: Target) -> int:
    return len((await at_once(target.port, scenes.requests_of(1_000, 3_000), 16))[0])


async def _streamed(target: Target) -> int:
    return len((await at_once(target.port, scenes.requests_of(1_000, 32, **scenes.BUSY), 16))[0])


async def _scanned(target: Target) -> int:
    return len(await one_by_one(target.port, scenes.scans(target, 2_000)))


async def _semantic(target: Target) -> int:
    fresh = next(islice(scenes.mixed(target, 240), next(_turns), None))
    return len((await at_once(target.port, fresh, 16))[0])


SCENES: dict[str, tuple[bool, Scene]] = {
    "1 KB, one by one": (False, lambda target: _alone(target, 1_000, 2_000)),
    "1 KB, c=16": (False, _many),
    "10 KB, one by one": (False, lambda target: _alone(target, 10_000, 600)),
    "100 KB, one by one": (False, lambda target: _alone(target, 100_000, 120)),
    "1 MB, one by one": (False, lambda target: _alone(target, 1_000_000, 15)),
    "16 streams of 200 chunks a second": (False, _streamed),
    "scan API, 1 KB": (False, _scanned),
    "scan API with the semantic layer, mixed prompts, c=16": (True, _semantic),
}


async def run(program: str, lines: int) -> list[str]:
    """Every scene in a fresh sidecar."""
    output: list[str] = []
    for name, (semantic, scene) in SCENES.items():
        async with World() as world:
            target = await world.sidecar(name, semantic=semantic)
            await scene(target)
            raw = world.folder / "raw"
            what = ("--pid", str(target.pid), "--rate", RATE, "--duration", "600", "--format", "raw", "--threads")
            spy = await asyncio.create_subprocess_exec(
                program, "record", *what, "--output", str(raw), stdout=asyncio.subprocess.DEVNULL
            )
            await asyncio.sleep(ATTACHED)
            before = spent(target.pid)
            count = await scene(target)
            seconds = (spent(target.pid) - before) / count
            spy.send_signal(signal.SIGINT)
            await spy.wait()
            output += [*shown(name, raw.read_text("utf-8"), seconds, lines), ""]
    return output


def shown(name: str, raw: str, seconds: float, lines: int) -> Iterator[str]:
    """The functions with the most time: ours, and where we call a library."""
    inside, exclusive = Counter[str](), Counter[str]()
    for line in raw.splitlines():
        stack, _, times = line.rpartition(" ")
        frames = [_place(frame) for frame in stack.split(";")]
        if frames[-1] in IDLE:
            continue
        for frame in set(frames):
            inside[frame] += int(times)
        exclusive[frames[-1]] += int(times)
    total = sum(exclusive.values())
    yield f"## {name}: {seconds * 1e6:,.0f} us of processor time a request (py-spy's share included)"
    for frame, samples in inside.most_common(lines * 2):
        if "/" in frame and samples < EVERYTHING * total:
            yield f"  {samples / total:6.1%} in all  {frame}"
    yield from (f"  {times / total:6.1%} itself  {frame}" for frame, times in exclusive.most_common(lines))


def _place(frame: str) -> str:
    """`function (folder/module.py`, without the line."""
    name, _, where = frame.partition(" (")
    return f"{name} ({'/'.join(where.rpartition(':')[0].split('/')[-2:])})" if ".py" in where else name


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--py-spy", default="py-spy", help="the program")
    parser.add_argument("--lines", type=int, default=25)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    report = "\n".join(uvloop.run(run(chosen.py_spy, chosen.lines)))
    print(report)
    if chosen.out:
        chosen.out.write_text(report, "utf-8")
