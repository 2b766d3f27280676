"""Requests that were refused for a limit, as one total for each key, hour and cause: no row for each request.

They are no decisions, so that nobody fills the scan log by asking too often. A key has at most four rows for an hour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import delete, func, select

from sidecar.storage.database import Database
from sidecar.storage.schema import refusals as table
from sidecar.storage.teams import of_teams

Cause = Literal["rate", "bytes", "budget", "busy"]
"""The rate of the key, its bytes a minute, the budget of its profile, or no free place or memory for a scan."""
NO_KEY = ""
"""The key of requests that are counted by their address."""
HOUR = 3600


class Refusals:
    """The table of these totals. Every method may raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, counts: Mapping[tuple[str, int, str], int]) -> None:
        """Add numbers of requests by key, hour since 1970 and cause, in one order, so that writers never block."""
        columns = ("key_id", "hour", "cause", "requests")
        values = [dict(zip(columns, (*key, counts[key]), strict=True)) for key in sorted(counts)]
        upsert = self._database.insert(table)
        added = {"requests": table.c.requests + upsert.excluded["requests"]}
        async with self._database.write() as connection:
            await connection.execute(
                upsert.on_conflict_do_update(index_elements=["key_id", "hour", "cause"], set_=added), values
            )

    async def of_keys(self, key_ids: Collection[str], since: datetime, until: datetime) -> dict[str, dict[str, int]]:
        """The requests of these keys by cause, in all hours that the time touches."""
        sums = select(table.c.key_id, table.c.cause, func.sum(table.c.requests)).where(
            table.c.key_id.in_(key_ids), *_within(since, until)
        )
        by_key: dict[str, dict[str, int]] = {}
        for key_id, cause, number in await self._rows(sums.group_by(table.c.key_id, table.c.cause)):
            by_key.setdefault(key_id, {})[cause] = int(number)
        return by_key

    async def total(
        self, since: datetime, until: datetime, key_id: str | None = None, teams: Sequence[str] | None = None
    ) -> int:
        """The requests of a key, of the keys of teams, or of all keys and addresses, in the hours of that time."""
        of_key = [] if key_id is None else [table.c.key_id == key_id]
        limits = (*of_key, *of_teams(table.c.key_id, teams), *_within(since, until))
        (row,) = await self._rows(select(func.sum(table.c.requests)).where(*limits))
        return int(row[0] or 0)

    async def purge(self, older_than: datetime) -> None:
        """Delete the totals of the hours before that time."""
        old = table.c.hour < int(older_than.timestamp()) // HOUR
        async with self._database.write() as connection:
            await connection.execute(delete(table).where(old))

    async def _rows(self, statement: Any) -> list[Any]:
        async with self._database.read() as connection:
            return list(await connection.execute(statement))


def _within(since: datetime, until: datetime) -> tuple[Any, Any]:
    first, end = int(since.timestamp()) // HOUR, -(-int(until.timestamp()) // HOUR)
    return table.c.hour >= first, table.c.hour < end
