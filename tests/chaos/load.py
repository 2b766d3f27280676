"""Load on the proxy and the scan API while a part is killed, and the responses that clients received."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
from chaos.world import ATTACK, POLICY, World
from sqlalchemy import select

from sidecar.storage import Filter
from sidecar.storage.database import Database
from sidecar.storage.decision_filter import conditions
from sidecar.storage.schema import decisions

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))
"""How often each part is killed: once in `make test`, 50 in `make chaos`."""
SENTENCE = "How long do I boil an egg?"


@dataclass
class Answered:
    """One response: time, entry point, status (0: no response) and decision."""

    at: float
    door: str
    attack: bool
    status: int
    decision: str = ""


@dataclass
class Load:
    """Clients of both endpoints; every third chat is an attack."""

    world: World
    answers: list[Answered] = field(default_factory=list)
    clients: int = 4
    pause: float = 0.01

    @property
    def decisions(self) -> set[str]:
        """The ids of all decisions that clients received: verdicts, not errors."""
        return {answer.decision for answer in self.answers if answer.status in {200, 400}}

    def statuses(self, *, attack: bool | None = None) -> Counter[int]:
        """Number of responses by status."""
        return Counter(answer.status for answer in self.answers if attack is None or answer.attack == attack)

    async def ask(self, number: int) -> None:
        """Send one request and record the response."""
        attack, door = number % 3 == 0, "inline" if number % 4 else "scan"
        text = ATTACK if attack else SENTENCE
        try:
            reply = await (self.world.inline(text) if door == "inline" else self.world.scan(text))
            answer = Answered(time.monotonic(), door, attack, reply.status, reply.headers.get("x-sidecar-decision", ""))
        except (aiohttp.ClientError, TimeoutError, OSError):
            answer = Answered(time.monotonic(), door, attack, 0)
        self.answers.append(answer)

    async def _client(self, first: int) -> None:
        number = first
        while True:
            await self.ask(number)
            number += 1
            await asyncio.sleep(self.pause)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Load]:
        """Send requests until the block ends."""
        tasks = [asyncio.ensure_future(self._client(100 * n)) for n in range(self.clients)]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def more(self, count: int, seconds: float = 30.0) -> None:
        """Wait until this many more requests were answered with a verdict."""
        aim = len(self.decisions) + count
        async with asyncio.timeout(seconds):
            while len(self.decisions) < aim:  # noqa: ASYNC110 - counted, there is no event
                await asyncio.sleep(0.01)


def process_settings(folder: Path, upstream: str, /, **sections: Any) -> dict[str, Any]:
    """Settings for a sidecar in a separate process: one rule, no rate limit, a deadline that no load reaches."""
    (folder / "policy.yaml").write_text(POLICY, "utf-8")
    return {
        "layers": {"semantic": {"enabled": False}},
        "policies": [str(folder / "policy.yaml")],
        "upstream": {"url": upstream},
        "limits": {"rate": "100000/second", "burst": 100_000},
        "log": {"level": "warning"},
        "scan": {"deadline": "30s"},
        **sections,
    }


async def stored(url: str, since: datetime | None = None) -> set[str]:
    """The ids of all decisions in the store, or of those of the last part of a long run."""
    ids = select(decisions.c.id).where(*conditions(Filter(since=since)))
    database = await Database.open(url, time_limit=300)
    try:
        async with database.read() as connection:
            return set(await connection.scalars(ids))
    finally:
        await database.close()
