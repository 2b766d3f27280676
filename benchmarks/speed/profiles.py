"""Where a request's time goes: each scene under cProfile, as text.

The sidecar runs as it always does, but for a profiler in its main thread that is switched on for the scene alone. A
profiler slows small functions more than large ones: the order is what counts, not the sum.

    python -m benchmarks.speed.profiles [--lines 12]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from benchmarks.speed import scenes
from benchmarks.speed.client import at_once, one_by_one, post, prompt
from benchmarks.speed.world import Target, World

OUT = "SIDECAR_PROFILE_OUT"
Scene = Callable[[Target], Awaitable[int]]


async def _alone(target: Target, size: int, times: int) -> int:
    return len(await one_by_one(target.port, scenes.asked(size, times)))


async def _many(target: Target) -> int:
    return len((await at_once(target.port, scenes.asked(1_000, 800), 16))[0])


async def _streamed(target: Target) -> int:
    return len(await one_by_one(target.port, scenes.asked(1_000, 6, **scenes.STREAM)))


async def _scanned(target: Target) -> int:
    bodies = ({"prompt": prompt(1_000, 10_000 + number)} for number in range(300))
    return len(await one_by_one(target.port, [post("/api/v1/prompt/scan", body, target.key) for body in bodies]))


async def _semantic(target: Target) -> int:
    return len((await at_once(target.port, next(scenes.mixed(target, 120)), 16))[0])


SCENES: dict[str, tuple[bool, Scene]] = {
    "1 KB, one by one": (False, lambda target: _alone(target, 1_000, 400)),
    "1 KB, c=16": (False, _many),
    "100 KB, one by one": (False, lambda target: _alone(target, 100_000, 30)),
    "streams": (False, _streamed),
    "scan API, 1 KB": (False, _scanned),
    "scan API with the semantic layer, mixed prompts, c=16 (its thread is not seen)": (True, _semantic),
}


async def run(lines: int) -> None:
    """Every scene in a fresh sidecar."""
    for name, (semantic, scene) in SCENES.items():
        async with World() as world:
            out = world.folder / "profile"
            command = [sys.executable, "-m", "benchmarks.speed.profiles", "--serve"]
            target = await world.sidecar(name, semantic=semantic, command=command, environ={OUT: str(out)})
            await scene(target)
            os.kill(target.pid, signal.SIGUSR1)
            await asyncio.sleep(0.2)
            count = await scene(target)
            os.kill(target.pid, signal.SIGUSR2)
            show(name, await _written(out), count, lines)


async def _written(out: Path) -> Path:
    """Wait for a file that appears when it is whole."""
    for _ in range(600):
        if await asyncio.to_thread(out.exists):
            return out
        await asyncio.sleep(0.1)
    raise SystemExit("the sidecar wrote no profile")


def show(name: str, out: Path, count: int, lines: int) -> None:
    """The functions with the most time of their own, and those of ours with the most time in all."""
    stats = pstats.Stats(str(out)).stats  # type: ignore[attr-defined]
    rows = [(own, whole, calls, where) for where, (_, calls, own, whole, _) in stats.items()]
    total = sum(row[0] for row in rows)
    print(f"\n## {name}: {total / count * 1e6:.0f} us a request under the profiler")
    for own, _, calls, where in sorted(rows, reverse=True)[:lines]:
        print(f"  {own / total:6.1%} itself  {calls / count:7.1f} calls  {_place(where)}")
    ours = [row for row in rows if "/sidecar/" in row[3][0]]
    for _, whole, calls, where in sorted(ours, key=lambda row: -row[1])[: lines * 2]:
        print(f"  {whole / total:6.1%} in all  {calls / count:7.1f} calls  {_place(where)}")


def _place(where: tuple[str, int, str]) -> str:
    path, line, name = where
    short = "/".join(Path(path).parts[-2:]) if path not in {"~", ""} else ""
    return f"{short}:{line} {name}" if short else name


def serve() -> None:
    """`sidecar serve` with a profiler that two signals switch on and off."""
    from sidecar.cli import main  # noqa: PLC0415 - not needed by who measures

    profiler = cProfile.Profile(time.thread_time)  # other work on the machine does not count

    def stop(*_: object) -> None:
        profiler.disable()
        out = Path(os.environ.pop(OUT))
        profiler.dump_stats(part := out.with_suffix(".part"))
        part.rename(out)

    signal.signal(signal.SIGUSR1, lambda *_: profiler.enable())
    signal.signal(signal.SIGUSR2, stop)
    main(["serve", "--no-first-key"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--lines", type=int, default=12)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve()
    else:
        uvloop.run(run(chosen.lines))
