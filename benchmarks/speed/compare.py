"""Processor time per chat of two trees of this program, in alternating batches of one run.

    python -m benchmarks.speed.compare OLD [--rounds 40] [--size 1000] [--clients 1]

OLD is the folder of another checkout. Both processes have default settings with the rules alone and the same upstream.
Every second round begins with the other tree, and prompts differ, so that no cache is hit. Of the ratios that are
printed the median of the rounds is the one to quote: other work on the machine slows one batch or the other.
"""

from __future__ import annotations

import argparse
import os
import statistics
from itertools import count
from pathlib import Path

import uvloop

from benchmarks.speed.client import at_once, chat
from benchmarks.speed.world import Target, World, spent

BATCH, WARM_ROUNDS = 200, 2
_seeds = count()


async def seconds(target: Target, size: int, clients: int) -> float:
    """Processor seconds of one batch."""
    requests = [chat(size, next(_seeds)) for _ in range(BATCH)]
    before = spent(target.pid)
    await at_once(target.port, requests, clients)
    return spent(target.pid) - before


async def run(old_tree: str, rounds: int, size: int, clients: int) -> list[tuple[float, float]]:
    """The seconds of the old and of the new tree in each round."""
    results: list[tuple[float, float]] = []
    async with World() as world:
        old = await world.sidecar("old", environ={"PYTHONPATH": old_tree})
        new = await world.sidecar("new")
        for number in range(WARM_ROUNDS + rounds):
            order = (new, old) if number % 2 else (old, new)
            pair = {target.name: await seconds(target, size, clients) for target in order}
            results.append((pair["old"], pair["new"]))
    return results[WARM_ROUNDS:]


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("old", type=Path, help="folder of the other checkout")
    for name, default in (("rounds", 40), ("size", 1_000), ("clients", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    pairs = uvloop.run(run(str(chosen.old.resolve()), chosen.rounds, chosen.size, chosen.clients))
    ratios = [new / old for old, new in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    total = sum(new for _, new in pairs) / sum(old for old, _ in pairs)
    print(
        f"new / old: median of {len(pairs)} rounds {middle:.3f}, quartiles {low:.3f} and {high:.3f}, of all {total:.3f}"
    )
    print(f"load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
