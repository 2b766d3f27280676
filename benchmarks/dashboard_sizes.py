"""Pages of the dashboard over a million decisions, against the same pages over a thousand: the ratio of their times.

Two dashboards on SQLite with generated rows of 30 days, 500 keys and 200 models run in one process; every page is
opened on both in turn, so that a busy machine slows both down.

    python -m benchmarks.dashboard_sizes [--rows 1000000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import dashboard
from dashboard import Visitor

from sidecar.storage import Store
from sidecar.storage.rollups import DAILY, DAY

FEW = 1_000
LONGEST_RATIO = 3.0
PAGES = (
    *("/?range=hour", "/?range=day", "/?range=week", "/?range=month", "/?since=2026-01-01T00:00"),
    *("/decisions", "/decisions?kind=scan", "/decisions?action=block", "/decisions?label=jailbreak&kind=scan"),
    *("/decisions?outcome=failed", "/decisions?sort=risk_score", "/decisions?sort=latency_ms&kind=scan"),
    *("/decisions?q=INJ-100", "/decisions?q=nothing", "/decisions?rule=INJ-100", "/decisions?model=none"),
    *("/decisions?key=key0", "/policies?sort=hits", "/policies/INJ-1", "/mcp", "/exceptions"),
)
COLUMNS = (
    "id, at, door, route, action, recommended, status, risk_score, layer_used, threats, latency_ms, key_id, model, "
    "length, segments, digest, revision, findings, layers"
)
HOUR = "CAST(strftime('%s', at) AS INTEGER) / 3600"
NAMES = {
    "all": "''",
    "key": "key_id",
    "model": "model",
    "layer": "layer_used",
    "latency": "CAST(latency_ms AS TEXT)",
    "label": "threats",
    "rule": "json_extract(findings, '$[0].rule')",
}
TOTALS = """
INSERT INTO hourly SELECT '{dimension}', {hour}, {name}, count(*), sum(action = 'block'), sum(recommended = 'block'),
  count(unscanned), count(failure) FROM decisions
  WHERE {name} IS NOT NULL AND ('{dimension}' = 'all' OR {name} <> '') GROUP BY 2, 3
"""


def rows(count: int) -> Iterator[tuple[Any, ...]]:
    """Decisions in the order of time; every fortieth is blocked."""
    now = datetime.now(UTC)
    for n in range(count):
        at = (now - timedelta(days=30) * (1 - (n + 1) / count)).strftime("%Y-%m-%d %H:%M:%S.%f")
        is_blocked = n % 40 == 0
        action, findings = ("block", '[{"rule":"INJ-100","path":"prompt"}]') if is_blocked else ("allow", "[]")
        place = (f"dec_{n:026}", at, "api", "/api/v1/prompt/scan", action, action, 200, n * 7919 % 1000 / 1000)
        scan = ("rules" if n % 3 == 0 else "semantic", "jailbreak" if is_blocked else "", n * 31 % 90)
        yield (*place, *scan, f"key{n % 500}", f"model-{n % 200}", 100, 1, f"1.{n}", "r1", findings, "[]")


def fill(path: Path, count: int) -> None:
    """Write the rows and their totals; the indexes are built afterwards."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'decisions' AND sql NOT NULL"
        indexes = connection.execute(query).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        marks = ", ".join("?" * len(COLUMNS.split(",")))
        connection.executemany(f"INSERT INTO decisions ({COLUMNS}) VALUES ({marks})", rows(count))  # noqa: S608
        for _, statement in indexes:
            connection.execute(statement)
        for dimension, name in NAMES.items():
            connection.execute(TOTALS.format(dimension=dimension, hour=HOUR, name=name))
            if dimension in DAILY:
                day = f"{HOUR} / {DAY} * {DAY}"
                connection.execute(TOTALS.format(dimension=DAILY[dimension], hour=day, name=name))
        connection.commit()


async def seconds(visitor: Visitor, page: str) -> float:
    """The time of one page, which must be there."""
    begun = time.perf_counter()
    status = (await visitor.get(page)).status
    if status not in {200, 404}:
        raise SystemExit(f"{page}: {status}")
    return time.perf_counter() - begun


async def run(many: int, rounds: int) -> bool:
    """Print a line for each page; whether all ratios are small."""
    with tempfile.TemporaryDirectory() as home:
        stores = []
        for count in (FEW, many):
            folder = Path(home) / str(count)
            folder.mkdir()
            stores.append((folder, await Store.open(f"sqlite:///{folder}/sidecar.db")))
            await asyncio.to_thread(fill, folder / "sidecar.db", count)
        (few_folder, few), (many_folder, much) = stores
        small, large = (
            dashboard.open_site(dashboard.settings(f), s) for f, s in ((few_folder, few), (many_folder, much))
        )
        async with small as one, large as other:
            ratios = [await compare(one.ada, other.ada, page, rounds) for page in PAGES]
        await few.close()
        await much.close()
    return max(ratios) <= LONGEST_RATIO


async def compare(few: Visitor, many: Visitor, page: str, rounds: int) -> float:
    """The ratio of the medians."""
    pairs = [(await seconds(few, page), await seconds(many, page)) for _ in range(rounds)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{page:42} {first * 1000:8.0f} ms {second * 1000:8.0f} ms {second / first:6.1f}", flush=True)
    return second / first


def main() -> int:
    """Arguments in, exit code out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    return 0 if asyncio.run(run(chosen.rows, chosen.rounds)) else 1


if __name__ == "__main__":
    sys.exit(main())
