"""Counts the steps of one allowed chat request: `python -m benchmarks.calls [--top 30]`.

Counts, for a chat completion that is scanned, allowed and answered by the echo upstream: calls of our own functions,
value objects of our own classes, modules entered, and how often control passes from one module of ours to another.
Counts do not depend on the machine: the first requests, which fill caches, are not counted, and of the others the one
with the fewest calls, beside which no timer ran.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import aiohttp
import click

from sidecar.config import Settings
from sidecar.runtime.app import Sidecar

PACKAGE = str(Path(sys.modules["sidecar"].__file__ or "").parent)
WARM, MEASURED = 5, 12
"""Requests before the counting, and requests counted."""


@dataclass
class Counts:
    """What the profiler counted."""

    calls: Counter[str] = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)
    modules: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    _last: str = ""

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """For `sys.setprofile`. A coroutine that resumes counts as another call."""
        if event != "call":
            return
        code = frame.f_code
        if code.co_name == "__init__" and code.co_filename == "<string>":
            made = type(frame.f_locals.get("self"))
            if made.__module__.startswith("sidecar."):
                self.objects[made.__qualname__] += 1
        if not code.co_filename.startswith(PACKAGE):
            return
        module = code.co_filename.removeprefix(PACKAGE).strip("/")
        self.calls[f"{module}:{code.co_qualname}"] += 1
        self.modules[module] += 1
        self.changes += module != self._last
        self._last = module


async def measure(settings: Settings) -> Counts:
    """The counts of one request."""
    results: list[Counts] = []
    async with Sidecar(settings) as running, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{running.data_port}/v1/chat/completions"
        for number in range(WARM + MEASURED):
            text = f"What is the capital of France, and how many people lived there in {1900 + number}?"
            body = {"model": "m", "messages": [{"role": "user", "content": text}]}
            counts = Counts()
            if number >= WARM:
                results.append(counts)
                sys.setprofile(counts.profile)
            async with session.post(url, json=body) as answer:
                await answer.read()
            sys.setprofile(None)
            if answer.status != 200:
                raise click.ClickException(f"the request was answered {answer.status}")
    return min(results, key=lambda counts: counts.calls.total())


def configured(folder: str, *, semantic: bool) -> Settings:
    """The default settings on free ports, with the echo upstream and a new store."""
    given = {
        "listen": {"port": 0},
        "admin": {"port": 0},
        "upstream": {"url": "echo://"},
        "store": {"url": f"sqlite:///{folder}/sidecar.db"},
        "layers": {"semantic": {"enabled": semantic}},
    }
    return Settings.model_validate(given)


@click.command()
@click.option("--top", default=0, help="Print this many of the functions that are called most.")
@click.option("--semantic/--rules-only", default=True, show_default=True, help="Which layers are on.")
def main(top: int, *, semantic: bool) -> None:
    """Print the counts of one allowed chat request."""
    with tempfile.TemporaryDirectory() as folder:
        counts = asyncio.run(measure(configured(folder, semantic=semantic)))
    click.echo(f"calls {counts.calls.total()}, of {len(counts.calls)} functions")
    classes = ", ".join(f"{name} {times}" for name, times in counts.objects.most_common())
    click.echo(f"value objects {counts.objects.total()}, of {len(counts.objects)} classes: {classes}")
    click.echo(f"modules {len(counts.modules)}, changes of module {counts.changes}")
    for name, times in counts.calls.most_common(top):
        click.echo(f"{times:5} {name}")


if __name__ == "__main__":
    main()
