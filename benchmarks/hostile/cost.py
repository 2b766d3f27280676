"""Processor time per kB of each hostile kind, as a ratio to real mixed text, in one run.

One sidecar with default settings, but a deadline that nothing reaches, so that every figure is the whole work. Real
text: the harmless conversations and documents of the committed traffic sample, each sent once, so that nothing is
cached; they are spread over the run, one request at a time. Its cost is the sum of all times over the sum of all
bytes; that of a kind is the median of its requests. Bytes are counted decompressed.

    python -m benchmarks.hostile.cost [KIND...] [--size 8000] [--rounds 3] [--rules-only] [--generator first]
"""

from __future__ import annotations

import asyncio
import statistics
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import click

from benchmarks import traffic_sample
from benchmarks.hostile import generators
from benchmarks.hostile.bodies import chat, dumps, http
from benchmarks.hostile.generators import BOTH, GENERATORS, with_key
from benchmarks.hostile.process import Running, running, send, upstream
from sidecar.evaluation.conversations import OPERATIONS

GOAL = 5.0
"""Maximum cost per kB, relative to real mixed text."""
WARM, WARM_TEXT = 8, "How many people lived in Lisbon in"
LARGEST = 40_000
REAL = "real mixed text"


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of processor time per kB, and the statuses of the answers."""

    name: str
    milliseconds: float
    statuses: frozenset[int]


async def cost(server: Running, name: str, requests: Sequence[tuple[bytes, int]]) -> Cost:
    """The median over these requests and their decoded sizes."""
    figures, statuses = [], set[int]()
    for raw, size in requests:
        before = server.processor_seconds()
        reply = await send(server.port, raw)
        figures.append((server.processor_seconds() - before) * 1e6 / size)
        statuses.update(reply.statuses or {0})
    return Cost(name, statistics.median(figures), frozenset(statuses))


def real_requests() -> list[bytes]:
    """The requests of the traffic sample up to `LARGEST` bytes, in a random order that is always the same."""
    bodies = ((row["dialect"], dumps(row["body"])) for row in traffic_sample.rows())
    requests = [http(body, f"/v1{OPERATIONS[dialect]}") for dialect, body in bodies if len(body) <= LARGEST]
    Random(1).shuffle(requests)
    return requests


async def measure(
    names: Sequence[str], size: int, rounds: int, settings: dict[str, object]
) -> tuple[float, list[Cost]]:
    """Milliseconds per kB of real text, and the costs of the kinds."""
    real, costs, base = real_requests(), list[Cost](), list[tuple[float, int]]()
    given = {"INLINE__WEBSOCKETS": "true", "SCAN__DEADLINE": "10m", **settings}
    async with upstream() as url, running({"UPSTREAM__URL": url, **given}) as server:
        key = await server.new_key("hostile")
        await cost(server, REAL, [(http(chat(f"{WARM_TEXT} {n}")), 1) for n in range(WARM)])
        for number, name in enumerate(names):
            chance, kind = Random(zlib.crc32(name.encode())), BOTH[name]
            for raw in real[number :: len(names)]:
                base.append(((await cost(server, REAL, [(raw, len(raw))])).milliseconds * len(raw), len(raw)))
            raws = [with_key(kind.make(chance, size), key) for _ in range(rounds)]
            costs.append(await cost(server, name, [(raw, kind.decoded_size(raw, size)) for raw in raws]))
    return sum(work for work, _ in base) / sum(length for _, length in base), costs


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND]...")
@click.option("--size", default=8_000, show_default=True, help="Bytes of a body.")
@click.option("--rounds", default=3, show_default=True, help="Requests of each kind.")
@click.option("--semantic/--rules-only", default=True, show_default=True, help="Which layers are on.")
@generators.option
def main(names: Sequence[str], size: int, rounds: int, generator: str, *, semantic: bool) -> None:
    """Print the kinds, the most expensive first."""
    settings: dict[str, object] = {"LAYERS__SEMANTIC__ENABLED": str(semantic).lower()}
    base, costs = asyncio.run(measure(names or list(GENERATORS[generator]), size, rounds, settings))
    print(f"{REAL}: {base:.2f} ms of processor time per kB; {len(costs)} kinds")
    for item in sorted(costs, key=lambda item: -item.milliseconds):
        print(
            f"{item.milliseconds / base:7.2f}  {item.milliseconds:8.2f} ms/kB  {item.name:34} {sorted(item.statuses)}"
        )
    expensive = sum(item.milliseconds > GOAL * base for item in costs)
    print(f"{expensive} kinds cost more than {GOAL:g} times real text")


if __name__ == "__main__":
    main()
