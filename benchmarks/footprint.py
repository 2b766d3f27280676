"""Memory and processor time of each step of a sidecar's startup, in order.

    python -m benchmarks.footprint

Memory is resident memory of this one process (Linux: /proc), so a step that reuses memory freed by another looks
smaller than it would alone. Real prompts come last: memory that automata and model allocate for them is not freed.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

PROMPTS = 300


def resident() -> float:
    """Resident megabytes."""
    rolled = Path("/proc/self/smaps_rollup").read_text("ascii")
    return int(rolled.partition("Rss:")[2].split()[0]) / 1024


async def steps() -> AsyncIterator[str]:
    """Performs each step and then yields its name. Imports are measured, too."""
    yield "Python and asyncio"
    from sidecar.runtime import malloc  # noqa: PLC0415

    malloc.tune()
    yield "the program and its libraries"
    from sidecar import policy  # noqa: PLC0415
    from sidecar.config import Settings  # noqa: PLC0415
    from sidecar.detectors.rules.layer import RulesLayer  # noqa: PLC0415
    from sidecar.storage import Store  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.push_async_callback((await Store.open(f"sqlite:///{folder}/store.db")).close)
        yield "a new store"
        read = policy.load()
        yield "policies, read and checked"
        rules = RulesLayer(read)
        yield "the rules layer"
        from sidecar.detectors.semantic.layer import SemanticLayer  # noqa: PLC0415

        yield "libraries of the semantic layer"
        semantic = SemanticLayer.load(Settings().layers.semantic)
        stack.push_async_callback(semantic.close)
        yield "its model"
        from benchmarks.semantic import sample  # noqa: PLC0415

        prompts = sample(PROMPTS)
        yield "(the prompts themselves)"
        for layer in (rules, semantic):
            for prompt in prompts:
                await layer.scan(prompt, ())
            yield f"{PROMPTS} prompts through {layer.name}"


async def measured() -> list[tuple[str, float, float]]:
    """Each step with the megabytes and processor seconds that it added."""
    samples, held, spent = [], 0.0, 0.0
    async for name in steps():
        now, cpu = resident(), time.process_time()
        samples.append((name, now - held, cpu - spent))
        held, spent = now, cpu
    return samples


if __name__ == "__main__":
    print("| step | MB | processor s |\n| --- | --- | --- |")
    for name, megabytes, seconds in asyncio.run(measured()):
        print(f"| {name} | {megabytes:.1f} | {seconds:.2f} |")
