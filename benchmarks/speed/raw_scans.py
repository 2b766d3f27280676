"""What the product does with a chat beside HTTP, and the floor of its processor time; for `benchmarks.speed.raw_path`.

By default and with the rules alone: classify the route, parse the JSON, extract the texts, scan them (result cache and
exceptions included), decide, and record the decision by the product's one way: a log line, metrics and a row in SQLite.

    python -m benchmarks.speed.raw_scans CHATS ROUNDS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.speed.client import chat
from sidecar.config import Settings
from sidecar.decision_log import DecisionLog
from sidecar.extraction import extraction, json_body, routes
from sidecar.extraction.dialect_fields import fields_of
from sidecar.extraction.extraction import Extraction
from sidecar.runtime import malloc
from sidecar.runtime.builder import ServerContext, open_scanner
from sidecar.scan.exceptions import RuleExceptions
from sidecar.scan.selection import Selector
from sidecar.scan.service import ScanContext, ScanOutcome, ScanService
from sidecar.server.middleware import new_decision_id
from sidecar.server.responses import blocked_response
from sidecar.storage import Store
from sidecar.util import logs

CHAT_PATH, LOOPBACK, SECRET = "/v1/chat/completions", "127.0.0.1", bytes(32)
STEPS = ("extract", "extract, scan", "extract, scan, record")
WHOLE = STEPS[-1]
WRITTEN = 1.0
"""Seconds after which the scan log has written its rows (`store.flush`)."""
_seeds = count()
_REFUSED = b"HTTP/1.1 %d Blocked\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


class ChatScans:
    """What the product does with a chat beside HTTP, step by step."""

    def __init__(self, service: ScanService, settings: Settings) -> None:
        self._service, self._settings, self._selector = service, settings, Selector(settings)

    def context(self, path: str) -> ScanContext:
        """A new decision, for a client on loopback without a key."""
        return ScanContext(new_decision_id(), "inline", path, address=LOOPBACK, client=LOOPBACK)

    def extract(self, path: str, body: bytes) -> Extraction:
        """The texts of a body. Raises `RequestError`."""
        route = routes.classify("POST", path, prefixes=self._settings.inline.prefixes)
        document = json_body.parse(body, depth=self._settings.limits.depth, fields=fields_of(route.dialect))
        return extraction.extract(document, route.operation, route.dialect)

    async def scan(self, context: ScanContext, texts: Extraction) -> ScanOutcome:
        """Scan and decide."""
        request, unscanned = self._selector.select(texts)
        return self._service.decide(await self._service.scan(request, context), unscanned, monitored=False)

    def record(self, context: ScanContext, outcome: ScanOutcome, texts: Extraction) -> None:
        """Record the decision soon."""
        status = self._settings.block.status if outcome.blocked else 200
        self._service.record(context, outcome, status, texts.segments, texts.model)

    def refusal(self, context: ScanContext, outcome: ScanOutcome) -> bytes:
        """The response to an attack."""
        body = cast("bytes", blocked_response(outcome.verdict, context.decision, self._settings.block, "openai").body)
        return _REFUSED % (self._settings.block.status, len(body), body)


@asynccontextmanager
async def open_scans() -> AsyncIterator[ChatScans]:
    """Start the scanner and the scan log with default settings, the rules alone and a new SQLite file."""
    settings = Settings.model_validate({"layers": {"semantic": {"enabled": False}}, "log": {"format": "json"}})
    malloc.tune()
    logs.configure(settings.log.format, settings.log.level)
    async with AsyncExitStack() as stack:
        store = await Store.open(f"sqlite:///{Path.cwd()}/raw-{time.monotonic_ns()}.db")
        stack.push_async_callback(store.close)
        decision_log, exceptions = DecisionLog(store, settings.store, settings.log), RuleExceptions(store)
        for opened in (decision_log, exceptions):
            await opened.start()
            stack.push_async_callback(opened.close)
        server = ServerContext(SECRET, exceptions, store.disagreements)
        scanner = await stack.enter_async_context(open_scanner(settings, server=server))
        malloc.trim()
        yield ChatScans(ScanService(scanner.engine, settings, decision_log), settings)


async def floor(chats: int, rounds: int) -> None:
    """Print the processor microseconds of a chat of 1 KB without any connection: a line for each round.

    All threads count. Each chat goes through all steps before the next one, as in a server: a loop over a single step
    would keep its code in the processor's caches.
    """
    async with open_scans() as scans:
        for turn in range(rounds + 1):
            seconds = [await _spent(scans, _bodies(chats), steps) for steps in range(1, 4)]
            if turn:
                print(json.dumps({step: taken * 1e6 / chats for step, taken in zip(STEPS, seconds, strict=True)}))


def _bodies(chats: int) -> list[bytes]:
    return [chat(1_000, next(_seeds)).partition(b"\r\n\r\n")[2] for _ in range(chats)]


async def _spent(scans: ChatScans, bodies: Sequence[bytes], steps: int) -> float:
    """Processor seconds of the first `steps` steps, until the scan log has written its rows."""
    before = time.process_time()
    for body in bodies:
        context, texts = scans.context(CHAT_PATH), scans.extract(CHAT_PATH, body)
        outcome = await scans.scan(context, texts) if steps > 1 else None
        if outcome is not None and steps > 2:
            scans.record(context, outcome, texts)
        await asyncio.sleep(0)
    await asyncio.sleep(WRITTEN)
    return time.process_time() - before


if __name__ == "__main__":
    uvloop.run(floor(chats=int(sys.argv[1]), rounds=int(sys.argv[2])))
