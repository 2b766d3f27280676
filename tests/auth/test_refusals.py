"""Counts of requests over a limit, until they are written."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sidecar.auth.refusals import RefusalCounts
from sidecar.storage import NO_KEY, Store


async def test_counts_wait_for_the_database_and_are_written_once(tmp_path: Path) -> None:
    """While it is closed nothing is lost; afterwards each request is one of the totals."""
    store = await Store.open(f"sqlite:///{tmp_path}/sidecar.db")
    counts = RefusalCounts(store.refusals)
    for key_id, number in (("k1", 3), (None, 2)):
        for _ in range(number):
            counts.add(key_id, "rate")
    async with store._database.write() as connection:
        await connection.exec_driver_sql("ALTER TABLE refusals RENAME TO elsewhere")
    await counts.write()
    async with store._database.write() as connection:
        await connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO refusals")
    counts.add("k1", "bytes")
    await counts.write()
    await counts.write()
    since = datetime.fromtimestamp(time.time(), UTC) - timedelta(hours=1)
    until = since + timedelta(hours=2)
    written = await store.refusals.of_keys(["k1", NO_KEY], since, until)
    assert written == {"k1": {"rate": 3, "bytes": 1}, NO_KEY: {"rate": 2}}
    await store.close()
