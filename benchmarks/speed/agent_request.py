"""The requests of a coding agent: 60 kB with 24 tools, a system prompt and tool results, cold and warm.

A cold request is the first of a new conversation; a warm one is the same conversation one turn later, as agents send
it. Tools and system prompt are sentences of the project's documents, tool results and users' turns those of
`benchmarks.speed.client`, in a new order for each conversation, so that nothing of a cold request is cached. Bare
aiohttp and the sidecar, with the rules alone and with the semantic layer, take turns in random order; every response is
checked. Beside them the time of one window of 126 tokens in the second stage, in this process and on one thread.

    python -m benchmarks.speed.agent_request [--rounds 15]
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import uvloop

from benchmarks.long_documents import one_pass
from benchmarks.speed.client import Connection, checked, post, prompt
from benchmarks.speed.goals import BARE, DIRECT, RULES, SEMANTIC, Goal, ratios
from benchmarks.speed.page import DOCS, table
from benchmarks.speed.scenes import Figures, Rounds, attacks, right, rounds
from benchmarks.speed.world import Target, World

TOOLS, TURNS = 24, 8
SYSTEM, DESCRIPTION, PARAMETER, RESULT = 7_000, 650, 60, 1_600
"""Characters of each part: about 60 kB together."""
WARM = 4
"""Later turns of each conversation."""
PAGES = ("access", "compose", "dashboard", "kubernetes", "observability", "performance", "reliability", "reports")
"""Those that quote no attacks."""
_SENTENCE = re.compile(r"[A-Z][^.|`#*\n]{40,200}\.(?= |$)", re.MULTILINE)


def sentences(folder: Path = DOCS) -> list[str]:
    """Plain sentences of the documents."""
    texts = ((folder / f"{page}.md").read_text("utf-8") for page in PAGES)
    return [sentence for text in texts for sentence in _SENTENCE.findall(text)]


class Conversation:
    """A conversation of an agent that grows by a turn; each one has texts of its own."""

    def __init__(self, pool: Sequence[str], seed: int) -> None:
        self._random, self._pool, self._seed = Random(seed), pool, seed
        self._tools = [self._tool(number) for number in range(TOOLS)]
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": self._text(SYSTEM)}]
        for number in range(TURNS):
            self._turn(number)

    def requests(self, later: int) -> Iterator[bytes]:
        """The first request, and one for each later turn."""
        yield self._request()
        for number in range(later):
            self._turn(TURNS + number)
            yield self._request()

    def _request(self) -> bytes:
        return post("/v1/chat/completions", {"model": "m", "messages": self._messages, "tools": self._tools})

    def _text(self, length: int) -> str:
        parts = [f"Note {self._seed}."]
        while sum(map(len, parts)) < length:
            parts.append(self._random.choice(self._pool))
        return " ".join(parts)

    def _plain(self, length: int, number: int) -> str:
        return prompt(length, self._seed * 1_000 + number)

    def _tool(self, number: int) -> dict[str, Any]:
        names = ("path", "pattern", "limit", "options")
        properties = {name: {"type": "string", "description": self._text(PARAMETER)} for name in names}
        parameters = {"type": "object", "properties": properties}
        function = {"name": f"tool_{number}", "description": self._text(DESCRIPTION), "parameters": parameters}
        return {"type": "function", "function": function}

    def _turn(self, number: int) -> None:
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "tool_1", "arguments": "{}"}}
        self._messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": self._plain(RESULT, number)},
            {"role": "user", "content": self._plain(100, 500 + number)},
        ]


async def measure(targets: Sequence[Target], times: int) -> Rounds:
    """Milliseconds of a cold request and of the warm ones after it (median), in each round."""
    pool, seeds = sentences(), iter(range(1_000_000))

    async def work(target: Target) -> Figures:
        requests = list(Conversation(pool, next(seeds)).requests(WARM))
        async with Connection(target.port) as connection:
            answers = [await connection.ask(request) for request in requests]
        checked(target.name, answers, right)
        cold, *warm = (answer.whole * 1000 for answer in answers)
        return {"cold_ms": cold, "warm_ms": statistics.median(warm), "bytes": len(requests[0])}

    return await rounds(targets, times, work)


def goals(figures: Rounds, pass_ms: float) -> Iterator[Goal]:
    """The goals: both for the sidecar with the semantic layer."""
    yield Goal("warm: p50, to bare aiohttp's", 3.0, ratios(figures, SEMANTIC, BARE, "warm_ms"))
    cold = [
        (row["cold_ms"] - bare["cold_ms"]) / pass_ms for row, bare in zip(figures[SEMANTIC], figures[BARE], strict=True)
    ]
    yield Goal("cold: added, in passes of the second stage over 126 tokens", 10.0, cold)


async def run(times: int) -> Rounds:
    """The figures of all targets."""
    async with World() as world:
        await world.prepare()
        ours = [await world.sidecar(RULES), await world.sidecar(SEMANTIC, semantic=True)]
        for target in ours:
            await attacks(target, 3)
        return await measure([world.upstream, await world.bare(), *ours], times)


def main() -> None:
    """Print the figures and the goals."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    times = parser.parse_args().rounds
    load = os.getloadavg()[0]
    figures, pass_ms = uvloop.run(run(times)), one_pass(" ".join(sentences()[:40])) * 1000
    size = statistics.median(row["bytes"] for row in figures[DIRECT])
    print(f"{times} rounds, load {load:.1f} before; {size:,.0f} bytes; one pass {pass_ms:.1f} ms\n")
    rows = [
        [name, *(f"{statistics.median(row[figure] for row in rows):.1f}" for figure in ("cold_ms", "warm_ms"))]
        for name, rows in figures.items()
    ]
    print(table(["", "cold ms", "warm ms"], rows), end="\n\n")
    head = ["goal", "bound", "measured (range of the rounds)", "met"]
    print(table(head, [goal.row() for goal in goals(figures, pass_ms)]))


if __name__ == "__main__":
    main()
