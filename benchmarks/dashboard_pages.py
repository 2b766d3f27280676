"""Pages of the dashboard over a month of millions of decisions, beside scans, with the hourly totals and without.

A real PostgreSQL is filled by generated rows of 30 days, 500 keys and 200 models. One sidecar process serves twelve
people who open the page of the month at once, again and again, while a client scans with a key. The figures without
totals are those of the rows: the totals are declared to begin in the future.

    python -m benchmarks.dashboard_pages [--rows 3000000] [--people 12] [--rounds 4]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import servers
from dashboard import Visitor
from support import ONE_RULE, SidecarProcess

from sidecar.auth.api_keys import KeyRing
from sidecar.config import Auth
from sidecar.dashboard.invitations import invite
from sidecar.storage import Role, Store
from sidecar.storage.rollups import DAILY, DAY

PAGE = "/?range=month"
CHUNK = 500_000
ROWS = """
INSERT INTO decisions SELECT 'dec_' || n, now() - random() * interval '30 days', 'api', '/api/v1/prompt/scan',
  CASE WHEN n % 40 = 0 THEN 'block' ELSE 'allow' END, CASE WHEN n % 40 = 0 THEN 'block' ELSE 'allow' END, 200, 0.1,
  CASE WHEN n % 3 = 0 THEN 'rules' ELSE 'semantic' END, CASE WHEN n % 40 = 0 THEN 'jailbreak' ELSE '' END,
  (random() * 90)::int, 'key' || n % 500, 'model-' || n % 200, 100, 1, '1.' || md5(n::text), NULL, NULL, 'r1',
  CASE WHEN n % 40 = 0 THEN '[{{"rule": "INJ-100"}}]'::json ELSE '[]'::json END, '[]'::json, NULL, NULL
FROM generate_series({first}, {last}) AS n
"""
NAMES = {
    "all": "''",
    "key": "key_id",
    "model": "model",
    "layer": "layer_used",
    "latency": "latency_ms::text",
    "label": "threats",
    "rule": "findings->0->>'rule'",
}
TOTALS = """
INSERT INTO hourly SELECT '{dimension}', (extract(epoch FROM at)::bigint / 3600{day})::int, {name}, count(*),
  count(*) FILTER (WHERE action = 'block'), count(*) FILTER (WHERE recommended = 'block'), count(unscanned),
  count(failure) FROM decisions WHERE {name} IS NOT NULL AND ('{dimension}' = 'all' OR {name} <> '') GROUP BY 2, 3
"""
WITHOUT = "INSERT INTO hourly VALUES ('first', 9999999, '', 0, 0, 0, 0, 0)"
WITH = "DELETE FROM hourly WHERE dimension = 'first'"


def fill(database: servers.PostgreSql, name: str, rows: int) -> None:
    """Generate the rows and their totals."""
    for first in range(1, rows + 1, CHUNK):
        database.sql(ROWS.format(first=first, last=min(rows, first + CHUNK - 1)), name)
    for dimension, column in NAMES.items():
        database.sql(TOTALS.format(dimension=dimension, name=column, day=""), name)
        if dimension in DAILY:
            database.sql(TOTALS.format(dimension=DAILY[dimension], name=column, day=f" / {DAY} * {DAY}"), name)
    database.sql("ANALYZE", name)


async def open_page(visitor: Visitor) -> tuple[int, float]:
    """Status and seconds of the page of the month."""
    begun = time.perf_counter()
    page = await visitor.get(PAGE)
    return page.status, time.perf_counter() - begun


async def scan_until(over: asyncio.Event, base: str, key: str) -> list[tuple[int, float]]:
    """Scans, one after another, with 50 ms between them."""
    found = []
    async with aiohttp.ClientSession(headers={"X-API-Key": key}) as session:
        while not over.is_set():
            begun = time.perf_counter()
            async with session.post(f"{base}/api/v1/prompt/scan", json={"prompt": f"Hello {begun}"}) as answer:
                await answer.read()
            found.append((answer.status, time.perf_counter() - begun))
            await asyncio.sleep(0.05)
    return found


def described(found: list[tuple[int, float]]) -> dict[str, Any]:
    """Statuses, and seconds."""
    taken = sorted(seconds for _, seconds in found)
    quantiles = {"median": statistics.median(taken), "longest": taken[-1]}
    return {"statuses": dict(Counter(status for status, _ in found)), **{k: round(v, 3) for k, v in quantiles.items()}}


async def measure(running: SidecarProcess, store: Store, people: int, rounds: int) -> dict[str, Any]:
    """The figures of one sidecar."""
    _, key = await KeyRing(store, Auth()).create("bench")
    visitors = [Visitor(running.admin) for _ in range(people)]
    link = await invite(store, f"vic{time.time_ns()}", Role.VIEWER, "bench")
    await visitors[0].join(link)
    for visitor in visitors[1:]:
        cookies = {cookie.key: cookie.value for cookie in visitors[0].session.cookie_jar}
        visitor.session.cookie_jar.update_cookies(cookies, URL(running.admin))
    figures = {"one page": described([await open_page(visitors[0]) for _ in range(rounds)])}
    over = asyncio.Event()
    scans = asyncio.ensure_future(scan_until(over, running.base, key))
    await asyncio.sleep(5)
    over.set()
    figures["scans alone"], over = described(await scans), asyncio.Event()
    scans = asyncio.ensure_future(scan_until(over, running.base, key))
    pages = [page for _ in range(rounds) for page in await asyncio.gather(*map(open_page, visitors))]
    over.set()
    figures |= {f"{people} pages at once": described(pages), "scans beside them": described(await scans)}
    for visitor in visitors:
        await visitor.session.close()
    return figures


async def run(rows: int, people: int, rounds: int) -> dict[str, Any]:
    """All figures."""
    with servers.postgresql() as database, tempfile.TemporaryDirectory() as folder:
        url = database.new_database()
        name = url.rpartition("/")[2]
        store = await Store.open(url)
        fill(database, name, rows)
        figures = {"rows": rows, "totals": int(database.sql("SELECT count(*) FROM hourly", name))}
        for kind, statement in (("without totals", WITHOUT), ("with totals", WITH)):
            database.sql(statement, name)
            running = SidecarProcess(Path(folder), {**ONE_RULE, "store": {"url": url}, "log": {"level": "error"}})
            running.start()
            figures[kind] = await measure(running, store, people, rounds)
            running.stop()
        await store.close()
    return figures


def main() -> None:
    """Arguments in, figures out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--people", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args()
    print(json.dumps(asyncio.run(run(chosen.rows, chosen.people, chosen.rounds)), indent=1))


if __name__ == "__main__":
    main()
