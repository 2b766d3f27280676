"""Whole requests over HTTP: share refused, share that could not be scanned, and milliseconds per kB.

Starts one sidecar with default settings and the echo upstream on loopback, and sends it every conversation and document
of labelled files (the format of `sidecar eval`; without a file the committed sample), each twice: the first time
with cold caches, the second time fully cached. Requests are sequential, so none waits for another.

    python -m benchmarks.traffic [FILE...] [--growing] [--limit N] [--json] [--no-semantic]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console
from rich.table import Table

from benchmarks import traffic_sample
from benchmarks.proxy import free_port, wait_for
from sidecar.cli.terminal import progress
from sidecar.evaluation import Row, Share, conversations, read_rows, rows
from sidecar.util import json as jsons

SECONDS = 120.0
"""Timeout of one request, which then counts as not scannable."""
ROUNDS = ("first", "again")
UNSCANNED = "x-sidecar-unscanned"
SOURCES = frozenset({"user", "untrusted", "application", "model", "media", "reference"})
"""Values of `x-sidecar-unscanned` that are no failures: roles that no layer reads, and parts that are no text."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a unit: its path and body."""

    row: Row
    path: str
    raw: bytes

    @property
    def size_class(self) -> str:
        """The size class, by the bytes of the body."""
        return next((name for limit, name in rows.SIZES if len(self.raw) < limit), rows.LARGEST)


@dataclass(frozen=True, slots=True)
class Reply:
    """The result: `passed`, `refused`, or why it could not be scanned; and seconds."""

    request: Request
    outcome: str
    seconds: float

    @property
    def unscanned(self) -> bool:
        """Whether it could not be scanned."""
        return self.outcome not in {"passed", "refused"}


def requests_of(rows: Sequence[Row], *, growing: bool) -> Iterator[Request]:
    """The requests of all units in order; single texts are sent as documents."""
    for row in rows:
        operation = row.operation or conversations.OPERATIONS["chat"]
        sent = list(row.requests(growing=growing)) or [
            conversations.document(row.text, indirect=row.channel.value == "indirect", system=row.system_prompt)
        ]
        yield from (Request(row, f"/v1{operation}", jsons.dumps(body, jsons.LARGE)) for body in sent)


def classify(status: int, headers: Mapping[str, str], content: bytes) -> str:
    """The result of a request, from its response."""
    if status < 400:
        failures = [name for name in headers.get(UNSCANNED, "").split(",") if name and name not in SOURCES]
        return failures[0] if failures else "passed"
    try:
        error = json.loads(content)["error"]
    except (ValueError, KeyError, TypeError):
        return str(status)
    return "refused" if "sidecar" in error else f"{status} {error.get('code') or error.get('type')}"


async def ask(session: aiohttp.ClientSession, base: str, request: Request) -> Reply:
    """Send one request."""
    begun = time.perf_counter()
    headers = {"Content-Type": "application/json"}
    try:
        async with session.post(base + request.path, data=request.raw, headers=headers) as answer:
            content = await answer.read()
            outcome = classify(answer.status, answer.headers, content)
    except (aiohttp.ClientError, TimeoutError) as error:
        outcome = type(error).__name__
    return Reply(request, outcome, time.perf_counter() - begun)


@contextmanager
def sidecar(*, semantic: bool) -> Iterator[tuple[str, str]]:
    """A new sidecar on loopback; yields the base URLs of its data and admin ports."""
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "SIDECAR__LISTEN__PORT": port,
            "SIDECAR__ADMIN__PORT": admin,
            "SIDECAR__UPSTREAM__URL": "echo://",
            "SIDECAR__LAYERS__SEMANTIC__ENABLED": str(semantic).lower(),
            "SIDECAR__STORE__URL": f"sqlite:///{folder}/sidecar.db",
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SIDECAR__")}
        environment = {**inherited, **{name: str(value) for name, value in settings.items()}}
        environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
        with Path(folder, "log").open("wb") as log:
            command = [sys.executable, "-m", "sidecar", "serve"]
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin}"
        finally:
            process.terminate()
            process.wait(timeout=30)


async def run(sent: Sequence[Request], *, semantic: bool) -> dict[str, list[Reply]]:
    """All requests, each twice in a row."""
    replies: dict[str, list[Reply]] = {name: [] for name in ROUNDS}
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    with sidecar(semantic=semantic) as (base, admin):
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await wait_for(session, f"{admin}/ready")
            with progress() as bar:
                for request in bar.track(sent, description="sending"):
                    for name in ROUNDS:
                        replies[name].append(await ask(session, base, request))
    return replies


def share(replies: Sequence[Reply]) -> Share:
    """The share of refused requests among those that were scanned."""
    unscanned = sum(reply.unscanned for reply in replies)
    return Share(sum(reply.outcome == "refused" for reply in replies), len(replies) - unscanned, unscanned)


def per_kilobyte(replies: Sequence[Reply]) -> dict[str, float]:
    """Milliseconds per 1,000 bytes of body, over scanned requests."""
    ordered = sorted(1e6 * reply.seconds / len(reply.request.raw) for reply in replies if not reply.unscanned)
    if not ordered:
        return {}
    return {name: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 2) for name, q in _QUANTILES.items()}


_QUANTILES = {"p50": 0.5, "p90": 0.9}


def units(replies: Sequence[Reply], *, attack: bool) -> Share:
    """Refused conversations, documents and texts: those with any refused request."""
    by_unit: dict[int, list[Reply]] = {}
    for reply in replies:
        if reply.request.row.attack is attack and (attack or reply.request.row.benign):
            by_unit.setdefault(id(reply.request.row), []).append(reply)
    refused = [any(reply.outcome == "refused" for reply in unit) for unit in by_unit.values()]
    failed = [any(reply.unscanned for reply in unit) for unit in by_unit.values()]
    unscanned = sum(bad and not hit for hit, bad in zip(refused, failed, strict=True))
    return Share(sum(refused), len(refused) - unscanned, unscanned)


def figures(replies: Mapping[str, Sequence[Reply]]) -> dict[str, Any]:
    """The figures as plain data."""
    first = replies["first"]
    classes = [name for _, name in rows.SIZES] + [rows.LARGEST]
    return {
        "requests": len(first),
        "benign": units(first, attack=False).as_dict(),
        "attacks": units(first, attack=True).as_dict(),
        "causes": dict(Counter(reply.outcome for reply in first if reply.unscanned).most_common()),
        "refused": [reply.request.row.id for reply in first if reply.outcome == "refused" and reply.request.row.benign],
        "sizes": {
            name: {turn: _of_size(replies[turn], name) for turn in ROUNDS}
            for name in classes
            if any(reply.request.size_class == name for reply in first)
        },
    }


def _of_size(replies: Sequence[Reply], name: str) -> dict[str, Any]:
    inside = [reply for reply in replies if reply.request.size_class == name]
    benign = [reply for reply in inside if reply.request.row.benign]
    return {"benign": share(benign).as_dict(), "ms_per_kb": per_kilobyte(inside), "requests": len(inside)}


def show(figures: Mapping[str, Any]) -> None:
    """Print a table."""
    out = Console(highlight=False, soft_wrap=True)
    columns = ("request", "sent", "benign refused", "could not scan", "ms/kB p50", "p90", "again p50", "again p90")
    table = Table(*columns)
    for name, turns in figures["sizes"].items():
        first, again = turns["first"], turns["again"]
        benign = first["benign"]
        times = [str(turn["ms_per_kb"].get(q, "-")) for turn in (first, again) for q in _QUANTILES]
        table.add_row(name, str(first["requests"]), _rate(benign), str(benign["unscanned"] or ""), *times)
    out.print(table)
    out.print(f"benign units refused: {_rate(figures['benign'])}, could not scan: {figures['benign']['unscanned']}")
    out.print(f"attacks caught: {_rate(figures['attacks'])}, could not scan: {figures['attacks']['unscanned']}")
    if figures["causes"]:
        out.print("could not scan: " + ", ".join(f"{cause} {count}" for cause, count in figures["causes"].items()))


def _rate(share: Mapping[str, Any]) -> str:
    if share["rate"] is None:
        return "-"
    return f"{share['rate']:.1%} of {share['of']} ({share['low']:.1%} - {share['high']:.1%})"


def main() -> None:
    """Arguments in, figures out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--growing", action="store_true", help="every request of a conversation as it grows")
    parser.add_argument("--limit", type=int, help="units of each file")
    parser.add_argument("--no-semantic", action="store_true", help="rules alone")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.files:
        units = [row for path in chosen.files for row in read_rows(path)[: chosen.limit]]
    else:
        values = list(traffic_sample.rows())[: chosen.limit]
        units = [rows.row(value, number) for number, value in enumerate(values, 1)]
    sent = list(requests_of(units, growing=chosen.growing))
    measured = figures(asyncio.run(run(sent, semantic=not chosen.no_semantic)))
    if chosen.json:
        print(json.dumps(measured, indent=1))
    else:
        show(measured)


if __name__ == "__main__":
    main()
