"""Hostile requests of all kinds, 32 at once, against a sidecar under a real memory limit, beside good traffic.

Good traffic is a client with a key that sends short chats, and one that asks `/health`, each one after another: alone
first, then beside as many requests of real traffic, then beside the hostile ones, of which those to the scan API have
another key, the others none. The figures are the 99th percentiles, their ratios to those alone, and the memory before,
at its peak, and after each round. Exit code 1: the process ended, a good request was not answered with 200, or memory
grew by more than `GROWTH` from the first round to the last.

    python -m benchmarks.hostile.load [--limit 512MiB]... [--requests 1000] [--rounds 2] [--rules-only]
        [--generator first]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import click

from benchmarks.hostile import generators
from benchmarks.hostile.bodies import CHAT, chat, http
from benchmarks.hostile.cost import real_requests
from benchmarks.hostile.generators import GENERATORS, HostileKind, with_key
from benchmarks.hostile.memory_limit import MemoryLimit, memory_limit
from benchmarks.hostile.process import Running, running, send, upstream
from benchmarks.idle import memory_mib
from sidecar.util.units import parse_size

AT_ONCE = 32
SIZES = (1_000, 4_000, 16_000, 64_000)
LARGE, EVERY = 500_000, 50
"""Every so many requests one of this size."""
GROWTH = 1.15
WARM, ALONE, PAUSE = 60, 400, 0.02
"""Good requests alone, and seconds between two."""
SETTLE_SECONDS = 5.0


@dataclass
class Good:
    """The good requests of a phase: milliseconds, and the answers that were not 200."""

    chats: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)


def requests(kinds: Mapping[str, HostileKind], count: int, seed: int, key: str) -> Iterator[tuple[str, bytes]]:
    """Requests of all kinds in turn, of different sizes, in random order."""
    chance = Random(seed)
    names = [name for _ in range(count // len(kinds) + 1) for name in kinds][:count]
    chance.shuffle(names)
    for number, name in enumerate(names):
        size = LARGE if number % EVERY == 0 else chance.choice(SIZES)
        yield name, with_key(kinds[name].on_wire(chance, size), key)


async def good_chats(server: Running, key: str, good: Good, more: Callable[[], bool], number: int) -> None:
    """Short chats, each new, with a key."""
    while more():
        number += 1
        body = chat(f"How many days has month {number} of the year {1000 + number}?")
        reply = await send(server.port, http(body, CHAT, f"X-API-Key: {key}"))
        good.chats.append(reply.seconds * 1000)
        good.wrong.update(f"chat {status}" for status in (reply.statuses or (0,)) if status != 200)
        await asyncio.sleep(PAUSE)


async def health(server: Running, good: Good, more: Callable[[], bool]) -> None:
    """Requests to `/health`."""
    while more():
        reply = await send(server.port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        good.health.append(reply.seconds * 1000)
        good.wrong.update(f"health {status}" for status in (reply.statuses or (0,)) if status != 200)
        await asyncio.sleep(PAUSE)


async def hostile(server: Running, sent: Iterator[tuple[str, bytes]]) -> Counter[int]:
    """Send all of them, `AT_ONCE` at a time; the statuses, 0 for none."""
    met = Counter[int]()

    async def client() -> None:
        for _, raw in sent:
            met.update((await send(server.port, raw)).statuses or (0,))

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return met


async def beside(server: Running, key: str, more: Callable[[], bool], number: int) -> Good:
    """Good traffic for as long as `more` says."""
    good = Good()
    await asyncio.gather(good_chats(server, key, good, more, number), health(server, good, more))
    return good


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return sorted(values)[int(len(values) * 0.99)] if values else float("nan")


async def run(
    limit: MemoryLimit, kinds: Mapping[str, HostileKind], count: int, rounds: int, settings: dict[str, object]
) -> bool:
    """One run under a limit; whether all was well."""
    print(f"limit {limit.description}; {len(kinds)} kinds, {count} requests, {AT_ONCE} at once", flush=True)
    async with upstream() as url:
        options = {"UPSTREAM__URL": url, "INLINE__WEBSOCKETS": "true", "LOG__LEVEL": "error", **settings}
        async with running(options, limit.command([])) as server:
            key, other, memory = await server.new_key("good"), await server.new_key("hostile"), list[float]()
            await beside(server, key, iter([True] * WARM + [False] * 2).__next__, 0)
            alone = await beside(server, key, iter([True] * ALONE + [False] * 2).__next__, 1_000)
            before = memory_mib(server.process.pid)
            chats, asked = p99(alone.chats), p99(alone.health)
            print(f"alone: chat p99 {chats:.1f} ms, health p99 {asked:.1f} ms; {before:.0f} MiB", flush=True)
            well, real = True, real_requests()
            print("real traffic, ", end="")
            await flood(server, key, (("real", real[n % len(real)]) for n in range(count)), 5_000, alone)
            for number in range(rounds):
                good = await flood(server, key, requests(kinds, count, number, other), 10_000 * (number + 1), alone)
                if server.process.poll() is not None:
                    print(f"ENDED with {server.process.returncode}, processes killed for memory: {limit.kills()}")
                    return False
                memory.append(memory_mib(server.process.pid))
                well = well and not good.wrong
                print(f"  {memory[-1]:.0f} MiB afterwards")
            print(f"peak of the group {limit.peak_mib()} MiB, processes killed for memory: {limit.kills()}", flush=True)
            return well and memory[-1] <= GROWTH * memory[0]


async def flood(server: Running, key: str, sent: Iterator[tuple[str, bytes]], number: int, alone: Good) -> Good:
    """Send the hostile requests with good traffic beside them, and print the figures."""
    began = time.monotonic()
    sending = asyncio.ensure_future(hostile(server, sent))
    good = await beside(server, key, lambda: not sending.done(), number)
    met, seconds = await sending, time.monotonic() - began
    chats, asked = p99(good.chats), p99(good.health)
    print(
        f"{seconds:.0f} s: statuses {dict(sorted(met.items()))}\n"
        f"  beside: chat p99 {chats:.1f} ms ({chats / p99(alone.chats):.1f} x, {len(good.chats)} requests), "
        f"health p99 {asked:.1f} ms ({asked / p99(alone.health):.1f} x, {len(good.health)} requests), "
        f"wrong {dict(good.wrong)}",
        flush=True,
    )
    await asyncio.sleep(SETTLE_SECONDS)
    return good


@click.command()
@click.option("--limit", "limits", multiple=True, default=["512MiB", "1GiB"], show_default=True, help="Memory.")
@click.option("--requests", "count", default=1_000, show_default=True, help="Hostile requests of a round.")
@click.option("--rounds", default=2, show_default=True, help="How many times.")
@click.option("--semantic/--rules-only", default=True, show_default=True, help="Which layers are on.")
@generators.option
def main(limits: Sequence[str], count: int, rounds: int, generator: str, *, semantic: bool) -> None:
    """Run under each limit and print the figures."""
    settings: dict[str, object] = {"LAYERS__SEMANTIC__ENABLED": str(semantic).lower()}
    well = True
    for name in limits:
        with memory_limit(parse_size(name)) as limit:
            well = asyncio.run(run(limit, GENERATORS[generator], count, rounds, settings)) and well
    sys.exit(not well)


if __name__ == "__main__":
    main()
