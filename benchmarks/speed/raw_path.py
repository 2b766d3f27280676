"""What a protocol of our own could save at most: the sidecar compared with proxies that leave aiohttp's server out.

Bodies of 1 KB, each a new text, in interleaved rounds of random order: on one connection, and on 16 at once. `raw` and
`raw + scan` are those of `benchmarks.speed.raw_server`, which names what they leave out: the ratio of the sidecar to
`raw + scan` is a bound that no product reaches. Processor time is that of the whole process tree, until the scan log
has written its rows. Client, upstream and proxies share the machine, so requests a second of the fastest targets are
bounded by the client. The run stops if a response is wrong, an attack passes, or the upstream received another number
of requests or bytes than were sent.

    python -m benchmarks.speed.raw_path [--rounds 7] [--seconds 2]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvloop

from benchmarks.speed import scenes
from benchmarks.speed.client import Tally, at_once, checked
from benchmarks.speed.goals import BARE, RULES, Goal, ratios
from benchmarks.speed.page import table
from benchmarks.speed.raw_scans import STEPS, WHOLE, WRITTEN
from benchmarks.speed.scenes import Figures, Rounds
from benchmarks.speed.world import Target, World, spent

RAW, RAW_SCAN = "raw", "raw + scan"
MODULE = "benchmarks.speed.raw_server"
WORTH = 2.0
"""Times as fast as today: with less a protocol of our own is not kept."""
FIRST_BATCH = 400
"""Requests of the warm-up round; the rate that it gives says how many take `--seconds`."""
FLOOR_CHATS = 2_000
TOTAL = "sidecar: sum of 1 to 5"


async def measure(targets: Sequence[Target], times: int, seconds: float, clients: int) -> Rounds:
    """Median time of a request, requests a second and processor milliseconds of a request, in each round."""
    sizes: dict[str, int] = {}

    async def work(target: Target) -> Figures:
        requests = scenes.requests_of(1_000, sizes.get(target.name, FIRST_BATCH))
        before = spent(target.pid)
        answers, taken = await at_once(target.port, requests, clients)
        await asyncio.sleep(WRITTEN)
        cpu = spent(target.pid) - before
        checked(target.name, answers, scenes.right)
        sizes.setdefault(target.name, max(FIRST_BATCH, int(len(requests) / taken * seconds)))
        median = statistics.median(answer.whole for answer in answers)
        return {"p50_ms": median * 1000, "per_s": len(requests) / taken, "cpu_ms": cpu * 1000 / len(requests)}

    return await scenes.rounds(targets, times, work)


async def floor(folder: Path, times: int, chats: int = FLOOR_CHATS) -> list[Figures]:
    """Processor microseconds of each step of a scan without any connection, in each round."""
    command = [sys.executable, "-m", "benchmarks.speed.raw_scans", str(chats), str(times)]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    with (folder / "floor.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=log
        )
        output, _ = await process.communicate()
    if process.returncode:
        raise SystemExit("the floor was not measured")
    return [json.loads(line) for line in output.splitlines()]


async def run(times: int, seconds: float) -> tuple[Rounds, Rounds, list[Figures]]:
    """The figures on one connection, on 16, and of the floor."""
    async with World() as world:
        await world.prepare()
        sidecar, scanning = await world.sidecar(RULES), await world.proxy(RAW_SCAN, MODULE, "scan")
        targets = [world.upstream, await world.bare(), await world.proxy(RAW, MODULE, "raw"), scanning, sidecar]
        for target in (sidecar, scanning):
            await scenes.attacks(target, 3)
        alone, load = [await measure(targets, times, seconds, clients) for clients in (1, 16)]
        if await scenes.counted(world.upstream) != (Tally.requests, Tally.body_bytes):
            raise SystemExit("the upstream received other requests than were sent")
        return alone, load, await floor(world.folder, times)


def rows(alone: Rounds, load: Rounds) -> Iterator[list[str]]:
    """A row for each target; the processor time is that of the load."""
    for name in alone:
        row = [name]
        for figures, figure in ((alone, "p50_ms"), (load, "per_s"), (load, "cpu_ms")):
            value = _median(figures[name], figure)
            row += [f"{value:,.0f}" if figure == "per_s" else f"{value:,.3f}"]
            row += [f"{statistics.median(ratios(figures, name, BARE, figure)):.2f}"]
        yield row


def bounds(alone: Rounds, load: Rounds, steps: Sequence[Figures]) -> Iterator[Goal]:
    """How many times as fast as the sidecar `raw + scan` is, and a scan without any protocol."""
    for what, figures, first, other, figure in (
        ("c=1: p50, sidecar / raw + scan", alone, RULES, RAW_SCAN, "p50_ms"),
        ("c=16: requests/s, raw + scan / sidecar", load, RAW_SCAN, RULES, "per_s"),
        ("c=1: processor time, sidecar / raw + scan", alone, RULES, RAW_SCAN, "cpu_ms"),
        ("c=16: processor time, sidecar / raw + scan", load, RULES, RAW_SCAN, "cpu_ms"),
    ):
        yield Goal(what, WORTH, ratios(figures, first, other, figure), least=True)
    least = _median(load[RULES], "cpu_ms") * 1000 / _median(steps, WHOLE)
    yield Goal("c=16: processor time, sidecar / the floor, without any protocol", WORTH, [least], least=True)


def shares(loads: Sequence[Rounds], steps: Sequence[Figures]) -> Iterator[list[str]]:
    """Where the processor time of the sidecar goes: for each load microseconds of a chat, and the share."""
    columns = [_parts(load, steps) for load in loads]
    for part in columns[0]:
        values = [(column[part], column[part] / column[TOTAL]) for column in columns]
        yield [part, *(cell for value, share in values for cell in (f"{value:,.0f}", f"{share:.0%}"))]


def _parts(load: Rounds, steps: Sequence[Figures]) -> dict[str, float]:
    cpu = {name: _median(load[name], "cpu_ms") * 1000 for name in load}
    whole = _median(steps, WHOLE)
    return {
        **{f"floor: {step}": _median(steps, step) for step in STEPS[:-1]},
        f"1. floor: {WHOLE}": whole,
        "2. protocol: raw": cpu[RAW],
        "3. raw + scan, beyond 1 and 2": cpu[RAW_SCAN] - cpu[RAW] - whole,
        "4. aiohttp: bare, beyond raw": cpu[BARE] - cpu[RAW],
        "5. the sidecar's other code": cpu[RULES] - cpu[RAW_SCAN] - cpu[BARE] + cpu[RAW],
        TOTAL: cpu[RULES],
    }


def _median(figures: Sequence[Figures], name: str) -> float:
    return statistics.median(each[name] for each in figures)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each target in each round")
    chosen = parser.parse_args()
    load_before = os.getloadavg()[0]
    alone, load, steps = uvloop.run(run(chosen.rounds, chosen.seconds))
    print(f"{chosen.rounds} rounds, load {load_before:.1f} before\n")
    head = ["", "c=1: p50 ms", "to bare", "c=16: requests/s", "to bare", "c=16: processor ms", "to bare"]
    print(table(head, list(rows(alone, load))), end="\n\n")
    head = ["bound", "worth it", "measured (range of the rounds)", "within reach"]
    print(table(head, [goal.row() for goal in bounds(alone, load, steps)]), end="\n\n")
    head = ["processor time of a chat", "c=1: us", "share", "c=16: us", "share"]
    print(table(head, list(shares([alone, load], steps))))


if __name__ == "__main__":
    main()
