"""Pages of the dashboard over a million decisions, against the same pages over a thousand: the ratio of their times.

Two dashboards on two databases with generated rows of 30 days, 500 keys and 200 models run in one process; every page
is opened on both in turn, so that a busy machine slows both down. One key has every tenth decision. The last pages are
those of a user who is limited to two teams: one has 50 keys and 19 % of the decisions, the other one has none.

    python -m benchmarks.dashboard_sizes [--database sqlite|postgresql] [--rows 1000000] [--rounds 7] [--pages team]
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import dashboard
import servers
from dashboard import DashboardSite, Visitor

from sidecar.storage import Role, Store
from sidecar.storage.rollups import DAILY, DAY

FEW = 1_000
LONGEST_RATIO = 3.0
PAGES = (
    *("/?range=hour", "/?range=day", "/?range=week", "/?range=month", "/?since=2026-01-01T00:00", "/?key=key0"),
    *("/?range=month&key=key0", "/trends?range=day&key=key0"),
    *("/trends?range=hour", "/trends?range=day", "/trends?range=month", "/trends?since=2026-01-01T00:00"),
    *("/trends?range=month&key=key0", "/decisions/views", "/decisions?range=day", "/decisions?ran=semantic"),
    *("/decisions", "/decisions?kind=scan", "/decisions?action=block", "/decisions?label=jailbreak&kind=scan"),
    *("/decisions?outcome=failed", "/decisions?sort=risk_score", "/decisions?sort=latency_ms&kind=scan"),
    *("/decisions?q=INJ-100", "/decisions?q=nothing", "/decisions?rule=INJ-100", "/decisions?model=none"),
    *("/decisions?key=key0", "/policies?sort=hits", "/policies/INJ-1", "/mcp", "/exceptions", "/shadow", "/keys"),
)
TEAM_PAGES = (
    *("/?range=hour", "/?range=day", "/?range=month", "/?since=2026-01-01T00:00", "/?range=month&key=key0"),
    *("/trends?range=day", "/trends?range=month", "/trends?range=month&key=key0", "/decisions", "/decisions?range=day"),
    *("/decisions?action=block", "/decisions?label=jailbreak&kind=scan", "/decisions?sort=risk_score"),
    *("/decisions?q=nothing", "/decisions?key=key0", "/decisions?team=quiet", "/decisions?team=quiet&model=none"),
    *("/policies?sort=hits", "/policies/INJ-1", "/exceptions", "/shadow", "/keys"),
)
KEYS, TEAM_KEYS = 500, 50
QUIET = range(110, 150, 10)
"""Keys without decisions: every tenth decision has the first key."""
COLUMNS = (
    "id, at, door, route, action, recommended, status, risk_score, layer_used, threats, latency_ms, key_id, model, "
    "length, segments, digest, revision, findings, layers"
)
RULES = '{"layer":"rules","score":0.1,"elapsed_ms":0.4,"failure":null}'
BOTH = RULES + ',{"layer":"semantic","score":0.1,"elapsed_ms":30,"failure":null}'
FINDINGS = '[{"rule":"INJ-100","path":"prompt"}]'
ON_POSTGRESQL = """
INSERT INTO decisions ({columns}) SELECT 'dec_' || lpad(n::text, 26, '0'),
  now() - interval '30 days' * (1 - (n + 1) / {count}.0), 'api', '/api/v1/prompt/scan',
  CASE WHEN n % 40 = 0 THEN 'block' ELSE 'allow' END, CASE WHEN n % 40 = 0 THEN 'block' ELSE 'allow' END, 200,
  n * 7919::bigint % 1000 / 1000.0, CASE WHEN n % 3 = 0 THEN 'rules' ELSE 'semantic' END,
  CASE WHEN n % 40 = 0 THEN 'jailbreak' ELSE '' END, n * 31::bigint % 90,
  'key' || CASE WHEN n % 10 = 0 THEN 0 ELSE n % 500 END, 'model-' || n % 200, 100, 1, '1.' || n, 'r1',
  CASE WHEN n % 40 = 0 THEN '{findings}'::json ELSE '[]'::json END,
  CASE WHEN n % 3 = 0 THEN '[{rules}]'::json ELSE '[{both}]'::json END FROM generate_series(0, {count} - 1) AS n
"""
NAMES = {
    "all": "''",
    "key": "key_id",
    "model": "model",
    "layer": "layer_used",
    "latency": "CAST(latency_ms AS TEXT)",
    "label": "threats",
    "rule": "findings -> 0 ->> 'rule'",
}
TOTALS = """
INSERT INTO hourly SELECT '{dimension}', {hour}, {name}, count(*), count(CASE WHEN action = 'block' THEN 1 END),
  count(CASE WHEN recommended = 'block' THEN 1 END), count(unscanned), count(failure), {time} * count(*) FROM decisions
  WHERE {name} IS NOT NULL AND ('{dimension}' IN ('all', 'cost') OR {name} <> '')
  AND layer_used <> '{unless}' GROUP BY 2, 3
"""


def rows(count: int) -> Iterator[tuple[Any, ...]]:
    """Decisions in the order of time; every fortieth is blocked."""
    now = datetime.now(UTC)
    for n in range(count):
        at = (now - timedelta(days=30) * (1 - (n + 1) / count)).strftime("%Y-%m-%d %H:%M:%S.%f")
        is_blocked = n % 40 == 0
        action, findings = ("block", FINDINGS) if is_blocked else ("allow", "[]")
        place = (f"dec_{n:026}", at, "api", "/api/v1/prompt/scan", action, action, 200, n * 7919 % 1000 / 1000)
        scan = ("rules" if n % 3 == 0 else "semantic", "jailbreak" if is_blocked else "", n * 31 % 90)
        layers = f"[{RULES if n % 3 == 0 else BOTH}]"
        yield (
            *place,
            *scan,
            f"key{0 if n % 10 == 0 else n % 500}",
            f"model-{n % 200}",
            100,
            1,
            f"1.{n}",
            "r1",
            findings,
            layers,
        )


def count_rows(execute: Callable[[str], object], hour: str) -> None:
    """Write the totals. `hour`: of a decision, in SQL."""
    for dimension, name in NAMES.items():
        numbers = {"name": name, "time": 0, "unless": ""}
        execute(TOTALS.format(dimension=dimension, hour=hour, **numbers))
        if dimension in DAILY:
            execute(TOTALS.format(dimension=DAILY[dimension], hour=f"{hour} / {DAY} * {DAY}", **numbers))
    for layer, time_of_one, unless in (("rules", 400, ""), ("semantic", 30_000, "rules")):
        execute(TOTALS.format(dimension="cost", hour=hour, name=f"'{layer}'", time=time_of_one, unless=unless))


def fill_sqlite(path: Path, count: int) -> None:
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
        count_rows(connection.execute, "CAST(strftime('%s', at) AS INTEGER) / 3600")
        connection.commit()


def fill_postgresql(server: servers.PostgreSql, name: str, count: int) -> None:
    """The same; then statistics of the tables, as PostgreSQL's own vacuum gathers them."""
    values = {"columns": COLUMNS, "findings": FINDINGS, "rules": RULES, "both": BOTH}
    server.sql(ON_POSTGRESQL.format(count=count, **values), name)
    count_rows(lambda statement: server.sql(statement, name), "(extract(epoch FROM at)::bigint / 3600)::int")
    server.sql("VACUUM ANALYZE", name)


async def seconds(visitor: Visitor, page: str) -> float:
    """The time of one page, which must be there."""
    begun = time.perf_counter()
    status = (await visitor.get(page)).status
    if status not in {200, 404}:
        raise SystemExit(f"{page}: {status}")
    return time.perf_counter() - begun


async def run(database: str, many: int, rounds: int, words: str) -> bool:
    """Print a line for each page whose line holds `words`; whether all ratios are small."""
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        server = stack.enter_context(servers.postgresql()) if database == "postgresql" else None
        folders = [Path(tempfile.mkdtemp(dir=home)) for _ in range(2)]
        stores = [await filled(server, folder, count) for folder, count in zip(folders, (FEW, many), strict=True)]
        small, large = (dashboard.open_site(dashboard.settings(f), s) for f, s in zip(folders, stores, strict=True))
        async with small as one, large as other:
            ratios = [ratio async for ratio in compared(one, other, rounds, words)]
        for store in stores:
            await store.close()
    if not ratios:
        raise SystemExit(f"no page has a line with {words!r}")
    return max(ratios) <= LONGEST_RATIO


async def compared(few: DashboardSite, many: DashboardSite, rounds: int, words: str) -> AsyncIterator[float]:
    """The ratios of the pages, first those of an admin, then those of a user who is limited to a team."""
    limited = [await site.member("lim", Role.OPERATOR, "team0", "quiet") for site in (few, many)]
    for who, visitors, pages in (("", (few.ada, many.ada), PAGES), ("team ", limited, TEAM_PAGES)):
        for page in pages:
            if words in who + page:
                yield await compare(*visitors, page, rounds, who)


async def filled(server: servers.PostgreSql | None, folder: Path, count: int) -> Store:
    """A store with that many decisions: in the folder, or on the server."""
    if server is None:
        store = await Store.open(f"sqlite:///{folder}/sidecar.db")
        await add_keys(store)
        await asyncio.to_thread(fill_sqlite, folder / "sidecar.db", count)
        return store
    url = server.new_database()
    store = await Store.open(url)
    await add_keys(store)
    await asyncio.to_thread(fill_postgresql, server, url.rpartition("/")[2], count)
    return store


async def add_keys(store: Store) -> None:
    """The keys of the decisions, in teams."""
    for number in range(KEYS):
        team = "quiet" if number in QUIET else f"team{number // TEAM_KEYS}"
        key = dashboard.api_key(f"key{number}", f"service {number}", team)
        await store.keys.add(key, number.to_bytes(32))


async def compare(few: Visitor, many: Visitor, page: str, rounds: int, who: str = "") -> float:
    """The ratio of the medians."""
    pairs = [(await seconds(few, page), await seconds(many, page)) for _ in range(rounds)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{who + page:42} {first * 1000:8.0f} ms {second * 1000:8.0f} ms {second / first:6.1f}", flush=True)
    return second / first


def main() -> int:
    """Arguments in, exit code out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pages", default="", help="only the lines that hold these words")
    chosen = parser.parse_args()
    return 0 if asyncio.run(run(chosen.database, chosen.rows, chosen.rounds, chosen.pages)) else 1


if __name__ == "__main__":
    sys.exit(main())
