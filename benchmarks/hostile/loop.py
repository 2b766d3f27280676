"""The longest time for which one hostile request holds the event loop, for each kind.

The sidecar runs in this process, on asyncio's own event loop, with default settings; the client is a thread. A hold is
the processor time of one iteration of the loop, which other processes do not lengthen, but not the time for which a
scan in a thread keeps the interpreter's lock: that is what `benchmarks.hostile.load` sees in the latency of good
traffic. One request at a time, each new.

    python -m benchmarks.hostile.loop [KIND...] [--size 64000] [--rounds 3] [--rules-only] [--generator first]
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import click

from benchmarks.calls import configured
from benchmarks.hostile import generators
from benchmarks.hostile.bodies import chat, http
from benchmarks.hostile.generators import BOTH, GENERATORS, with_key
from benchmarks.hostile.process import SECONDS, new_key
from benchmarks.proxy import free_port, start_upstream
from sidecar.runtime import malloc
from sidecar.runtime.app import Sidecar

GOAL = 0.005
"""Maximum seconds of one hold."""
WARM = 10


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Measures each of its iterations in processor time, which does not pass while it waits."""

    longest = 0.0

    def _run_once(self) -> None:
        started = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest = max(self.longest, time.thread_time() - started)


@contextmanager
def server() -> Iterator[str]:
    """The upstream, in a process of its own; yields its URL."""
    port = free_port()
    process = start_upstream(port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def ask(port: int, raw: bytes) -> None:
    """Send a raw request and read until the server closes."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), SECONDS) as client:
        client.sendall(raw)
        while client.recv(65536):
            pass


def requests(name: str, size: int, rounds: int, key: str) -> list[bytes]:
    """Requests of a kind, made in a thread: their making is no hold."""
    chance = Random(zlib.crc32(name.encode()))
    return [with_key(BOTH[name].on_wire(chance, size), key) for _ in range(rounds)]


async def measure(names: Sequence[str], size: int, rounds: int, *, semantic: bool) -> dict[str, list[float]]:
    """The longest hold of each request, by kind."""
    loop, holds = asyncio.get_running_loop(), dict[str, list[float]]()
    assert isinstance(loop, MeasuredLoop)  # noqa: S101 - created by `main`
    with tempfile.TemporaryDirectory() as folder, server() as url:
        settings = configured(folder, semantic=semantic)
        settings = settings.model_copy(update={"upstream": settings.upstream.model_copy(update={"url": url})})
        async with Sidecar(settings) as running:
            environment = {**os.environ, "SIDECAR__STORE__URL": settings.store.url, "PYTHONPATH": str(Path.cwd())}
            key = await asyncio.to_thread(new_key, folder, environment, "hostile")

            async def hold(raw: bytes) -> float:
                loop.longest = 0.0
                await asyncio.to_thread(ask, running.data_port, raw)
                return loop.longest

            for number in range(WARM):
                await hold(http(chat(f"How far is it from here to the {number} lakes?")))
            malloc.trim()
            for name in names:
                raws = await asyncio.to_thread(requests, name, size, rounds, key)
                holds[name] = [await hold(raw) for raw in raws]
    return holds


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND]...")
@click.option("--size", default=64_000, show_default=True, help="Bytes of a body.")
@click.option("--rounds", default=3, show_default=True, help="Requests of each kind.")
@click.option("--semantic/--rules-only", default=True, show_default=True, help="Which layers are on.")
@generators.option
def main(names: Sequence[str], size: int, rounds: int, generator: str, *, semantic: bool) -> None:
    """Print the median and the longest hold of each kind, the longest first."""
    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        holds = runner.run(measure(names or list(GENERATORS[generator]), size, rounds, semantic=semantic))
    for name, seconds in sorted(holds.items(), key=lambda item: -statistics.median(item[1])):
        print(f"{statistics.median(seconds) * 1000:7.2f} ms  (longest of {rounds}: {max(seconds) * 1000:7.2f})  {name}")
    above = sum(statistics.median(seconds) > GOAL for seconds in holds.values())
    print(f"{above} of {len(holds)} kinds hold the loop for more than {GOAL * 1000:g} ms")


if __name__ == "__main__":
    main()
